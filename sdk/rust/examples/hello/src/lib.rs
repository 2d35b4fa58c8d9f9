//! Allows each request, and sets a header.

use scriptorium::{Decision, Request};

scriptorium::handle!(decide);

fn decide(request: &Request) -> Decision {
    Decision::allow().set_header("x-hello", format!("hello {}", request.remote_addr()))
}
