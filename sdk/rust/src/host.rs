//! What the agent does for scripts. If it cannot do what a function asks, for example because a key is not
//! valid, the call ends with an error and the function does not return.

use crate::Json;

/// Logs a line at the level info.
pub fn log_info(message: &str) {
    imports::log(0, message);
}

/// Logs a line at the level warn.
pub fn log_warn(message: &str) {
    imports::log(1, message);
}

/// Logs a line at the level error.
pub fn log_error(message: &str) {
    imports::log(2, message);
}

/// Ends the call with an error of the kind `SCRIPT`.
pub fn fail(message: &str) -> ! {
    imports::fail(message)
}

/// The script's config, an object: `spec.config` of its manifest. Each call of this function copies it, and what
/// it returns stays until the call of the script ends.
pub fn config() -> Json<'static> {
    Json::trusted(Box::leak(imports::config().into_boxed_str()))
}

/// The content of a value of the tenant.
pub fn kv_get(key: &str) -> Option<Vec<u8>> {
    imports::kv_get(key)
}

/// At most `limit` keys of the tenant's values in their order: those that begin with `prefix`, and come after the
/// key `after`.
pub fn kv_keys(prefix: &str, after: &str, limit: usize) -> Vec<String> {
    Json::trusted(&imports::kv_keys(prefix, after, limit)).texts()
}

/// Adds `n` to a counter of the tenant on this agent, and returns what the counter is then.
pub fn counter_add(name: &str, n: f64) -> f64 {
    imports::counter_add(name, n)
}

/// Takes `n` tokens from a bucket of the tenant on this agent. The bucket holds up to `burst` tokens, and gets
/// `rate` tokens a second. If there are too few, it takes none and returns `Err` with the seconds until there are
/// enough.
pub fn rate_limit(bucket: &str, n: f64, rate: f64, burst: f64) -> Result<(), f64> {
    match imports::rate_limit(bucket, n, rate, burst) {
        wait if wait > 0.0 => Err(wait),
        _ => Ok(()),
    }
}

#[cfg(target_arch = "wasm32")]
mod imports {
    mod raw {
        #[link(wasm_import_module = "scriptorium")]
        extern "C" {
            pub fn log(level: u32, text: *const u8, length: usize);
            pub fn fail(text: *const u8, length: usize);
            pub fn config(buffer: *mut u8, capacity: usize) -> i32;
            pub fn kv_get(key: *const u8, length: usize, buffer: *mut u8, capacity: usize) -> i32;
            pub fn kv_keys(
                prefix: *const u8,
                prefix_length: usize,
                after: *const u8,
                after_length: usize,
                limit: usize,
                buffer: *mut u8,
                capacity: usize,
            ) -> i32;
            pub fn counter_add(name: *const u8, length: usize, n: f64) -> f64;
            pub fn ratelimit_take(bucket: *const u8, length: usize, n: f64, rate: f64, burst: f64) -> f64;
        }
    }

    pub fn log(level: u32, text: &str) {
        unsafe { raw::log(level, text.as_ptr(), text.len()) }
    }

    pub fn fail(text: &str) -> ! {
        unsafe { raw::fail(text.as_ptr(), text.len()) }
        core::arch::wasm32::unreachable() // the agent has ended the call
    }

    pub fn config() -> String {
        let text = read(|buffer, capacity| unsafe { raw::config(buffer, capacity) });
        unsafe { String::from_utf8_unchecked(text.unwrap_or_default()) }
    }

    pub fn kv_get(key: &str) -> Option<Vec<u8>> {
        read(|buffer, capacity| unsafe { raw::kv_get(key.as_ptr(), key.len(), buffer, capacity) })
    }

    pub fn kv_keys(prefix: &str, after: &str, limit: usize) -> String {
        let text = read(|buffer, capacity| unsafe {
            raw::kv_keys(prefix.as_ptr(), prefix.len(), after.as_ptr(), after.len(), limit, buffer, capacity)
        });
        unsafe { String::from_utf8_unchecked(text.unwrap_or_default()) }
    }

    pub fn counter_add(name: &str, n: f64) -> f64 {
        unsafe { raw::counter_add(name.as_ptr(), name.len(), n) }
    }

    pub fn rate_limit(bucket: &str, n: f64, rate: f64, burst: f64) -> f64 {
        unsafe { raw::ratelimit_take(bucket.as_ptr(), bucket.len(), n, rate, burst) }
    }

    /// Calls `f` again with a larger buffer until the text fits. The text may change in between.
    fn read(f: impl Fn(*mut u8, usize) -> i32) -> Option<Vec<u8>> {
        let mut buffer = Vec::with_capacity(1024);
        loop {
            let length = f(buffer.as_mut_ptr(), buffer.capacity());
            if length < 0 {
                return None;
            }
            if length as usize <= buffer.capacity() {
                unsafe { buffer.set_len(length as usize) }
                return Some(buffer);
            }
            buffer.reserve_exact(length as usize);
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
use testing as imports;

/// Stands in for the agent where the crate is not compiled to WebAssembly, so that `cargo test` runs scripts. Each
/// thread has its own.
#[cfg(not(target_arch = "wasm32"))]
pub mod testing {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use crate::quote;

    /// What scripts of this thread get from the agent, and what they told it.
    #[derive(Clone, Default)]
    pub struct Host {
        /// An object as JSON; none if it is empty.
        pub config: String,
        pub values: BTreeMap<String, Vec<u8>>,
        pub lines: Vec<String>,
        pub counters: BTreeMap<String, f64>,
        /// How long `rate_limit` has scripts wait.
        pub wait: f64,
    }

    thread_local!(static HOST: RefCell<Host> = RefCell::default());

    /// Reads or changes the host of this thread.
    pub fn with_host<T>(f: impl FnOnce(&mut Host) -> T) -> T {
        HOST.with(|host| f(&mut host.borrow_mut()))
    }

    pub(crate) fn log(_level: u32, text: &str) {
        with_host(|host| host.lines.push(text.into()))
    }

    pub(crate) fn fail(text: &str) -> ! {
        panic!("{}", text)
    }

    pub(crate) fn config() -> String {
        with_host(|host| if host.config.is_empty() { "{}".into() } else { host.config.clone() })
    }

    pub(crate) fn kv_get(key: &str) -> Option<Vec<u8>> {
        with_host(|host| host.values.get(key).cloned())
    }

    pub(crate) fn kv_keys(prefix: &str, after: &str, limit: usize) -> String {
        with_host(|host| {
            let keys = host.values.keys().filter(|key| key.starts_with(prefix) && key.as_str() > after);
            format!("[{}]", keys.take(limit).map(|key| quote(key)).collect::<Vec<_>>().join(","))
        })
    }

    pub(crate) fn counter_add(name: &str, n: f64) -> f64 {
        with_host(|host| {
            let counter = host.counters.entry(name.into()).or_default();
            *counter += n;
            *counter
        })
    }

    pub(crate) fn rate_limit(_bucket: &str, _n: f64, _rate: f64, _burst: f64) -> f64 {
        with_host(|host| host.wait)
    }
}
