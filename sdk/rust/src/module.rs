//! What a module exports.

use std::fmt::Display;

use crate::{fail, Decision, Request};

/// Has a function decide about requests. It gets a [`&Request`](Request) and returns an [`Outcome`].
#[macro_export]
macro_rules! handle {
    ($decide:path) => {
        $crate::exports!(|argument: &str| $crate::call(argument, $decide));
    };
}

/// Has a function answer calls with any argument. It gets the argument as JSON, `&str`, and returns the result
/// as JSON, `String` or `Result<String, E>`. An empty result is no result.
#[macro_export]
macro_rules! handle_json {
    ($answer:path) => {
        $crate::exports!(|argument: &str| $crate::call_json(argument, $answer));
    };
}

/// What `handle!` and `handle_json!` expand to.
#[doc(hidden)]
#[macro_export]
macro_rules! exports {
    ($call:expr) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            #[export_name = "scriptorium_alloc"]
            extern "C" fn allocate(size: usize) -> *mut u8 {
                $crate::allocate(size)
            }

            #[export_name = "handle"]
            extern "C" fn handle(address: *const u8, length: usize) -> u64 {
                // The agent wrote UTF-8 there.
                let argument = unsafe { std::slice::from_raw_parts(address, length) };
                let argument = unsafe { std::str::from_utf8_unchecked(argument) };
                let call: fn(&str) -> String = $call;
                // The agent reads the result before anything else happens in the module.
                let result = std::mem::ManuallyDrop::new(call(argument));
                if result.is_empty() {
                    return 0;
                }
                (result.as_ptr() as usize as u64) << 32 | result.len() as u64
            }
        };
    };
}

/// The memory that the agent writes an argument to.
#[doc(hidden)]
pub fn allocate(size: usize) -> *mut u8 {
    report_panics();
    let mut buffer = Vec::<u8>::new();
    if buffer.try_reserve_exact(size.max(1)).is_err() {
        return std::ptr::null_mut();
    }
    std::mem::ManuallyDrop::new(buffer).as_mut_ptr()
}

/// A panic ends the call with its message and place.
fn report_panics() {
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|info| fail(&info.to_string())));
}

/// Calls a function that decides. Tests outside of a module use it, too.
pub fn call<T: Outcome>(argument: &str, decide: impl FnOnce(&Request) -> T) -> String {
    match decide(&Request::new(argument)).outcome() {
        Ok(Some(decision)) => decision.to_json(),
        Ok(None) => String::new(),
        Err(message) => fail(&message),
    }
}

/// Calls a function that answers. Tests outside of a module use it, too.
pub fn call_json<T: Answer>(argument: &str, answer: impl FnOnce(&str) -> T) -> String {
    answer(argument).answer().unwrap_or_else(|message| fail(&message))
}

/// What a function may return that decides about requests: a [`Decision`]; nothing, which sends the request on
/// as it is; or a `Result` of these, whose error ends the call.
pub trait Outcome {
    #[doc(hidden)]
    fn outcome(self) -> Result<Option<Decision>, String>;
}

impl Outcome for Decision {
    fn outcome(self) -> Result<Option<Decision>, String> {
        Ok(Some(self))
    }
}

impl Outcome for Option<Decision> {
    fn outcome(self) -> Result<Option<Decision>, String> {
        Ok(self)
    }
}

impl<T: Outcome, E: Display> Outcome for Result<T, E> {
    fn outcome(self) -> Result<Option<Decision>, String> {
        self.map_err(|e| e.to_string()).and_then(T::outcome)
    }
}

/// What a function may return that answers with JSON.
pub trait Answer {
    #[doc(hidden)]
    fn answer(self) -> Result<String, String>;
}

impl Answer for String {
    fn answer(self) -> Result<String, String> {
        Ok(self)
    }
}

impl<E: Display> Answer for Result<String, E> {
    fn answer(self) -> Result<String, String> {
        self.map_err(|e| e.to_string())
    }
}
