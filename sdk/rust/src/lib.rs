//! Scripts for Scriptorium that run as WebAssembly modules.
//!
//! ```
//! use scriptorium::{Decision, Request};
//!
//! scriptorium::handle!(decide);
//!
//! fn decide(request: &Request) -> Decision {
//!     if request.path().starts_with("/admin") {
//!         return Decision::deny(403, "not you\n");
//!     }
//!     Decision::allow().upstream("web")
//! }
//! # fn main() {}
//! ```
//!
//! The crate has no dependencies. See README.md beside it.

mod decision;
mod host;
mod json;
mod module;
mod request;

#[cfg(not(target_arch = "wasm32"))]
pub use host::testing;

pub use decision::{Cookie, Decision};
pub use host::{config, counter_add, fail, kv_get, kv_keys, log_error, log_info, log_warn, rate_limit};
pub use json::{quote, Json};
pub use module::{allocate, call, call_json, Answer, Outcome};
pub use request::Request;
