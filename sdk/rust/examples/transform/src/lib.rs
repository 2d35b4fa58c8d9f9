//! Sums up the items of an order that are wanted at all. loadtest/engines compares it with its twins in other languages.

use scriptorium::{quote, Json};
use std::fmt::Write;

scriptorium::handle_json!(sum);

fn sum(argument: &str) -> Result<String, &'static str> {
    let order = Json::parse(argument).ok_or("the order is no JSON")?;
    let (mut lines, mut total) = (String::new(), 0.0);
    for item in order.get("items").items() {
        let quantity = item.get("quantity").as_f64().unwrap_or(0.0);
        if quantity <= 0.0 {
            continue;
        }
        let amount = item.get("price").as_f64().unwrap_or(0.0) * quantity;
        total += amount;
        if !lines.is_empty() {
            lines.push(',');
        }
        let _ = write!(lines, r#"{{"name":{},"amount":{}}}"#, quote(&item.get("name").text()), amount);
    }
    let customer = quote(&order.get("customer").text());
    Ok(format!(r#"{{"customer":{},"lines":[{}],"total":{}}}"#, customer, lines, total))
}
