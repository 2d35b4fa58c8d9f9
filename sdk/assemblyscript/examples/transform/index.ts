// Sums up the items of an order that are wanted at all. loadtest/engines compares it with its twins in other languages.
import { Json, fail, onCall, quote } from "scriptorium-sdk";
export { handle, scriptorium_alloc } from "scriptorium-sdk";

onCall((argument: string): string => {
  const order = Json.parse(argument);
  if (order === null) {
    fail("the order is no JSON");
    return "";
  }
  const items = order.get("items").items();
  const lines: string[] = [];
  let total: f64 = 0;
  for (let i = 0; i < items.length; i++) {
    const quantity = items[i].get("quantity").number();
    if (quantity <= 0) continue;
    const amount = items[i].get("price").number() * quantity;
    total += amount;
    lines.push('{"name":' + quote(items[i].get("name").text()) + ',"amount":' + amount.toString() + "}");
  }
  return '{"customer":' + quote(order.get("customer").text()) + ',"lines":[' + lines.join(",") + '],"total":' + total.toString() + "}";
});
