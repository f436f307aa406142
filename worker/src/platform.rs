//! The two things of the platform that `worker` does not offer.

#![allow(unsafe_code, unreachable_pub, clippy::allow_attributes_without_reason, reason = "generated")]

use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use worker::State;

#[wasm_bindgen(inline_js = "
export function watch(object) {
  const state = globalThis.__worker_init_state;
  const born = state.instanceId;
  const timer = setInterval(() => {
    if (!state.criticalError && state.instanceId === born) return;
    clearInterval(timer);
    object.abort('another session has failed, and this one with it');
  }, 1000);
}
export function secret() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
")]
extern "C" {
    #[wasm_bindgen(js_name = watch)]
    fn watch_object(object: &JsValue);

    /// 128 random bits, in hexadecimal digits.
    #[wasm_bindgen(js_name = secret)]
    pub(crate) fn secret() -> String;
}

/// Ends the object when the WebAssembly instance that it was made in has ended.
/// A panic ends the instance, which all sessions of the isolate share, and
/// nothing that waits in it is ever woken; so this watches from outside.
pub(crate) fn watch(state: &State) {
    watch_object(state.as_raw().as_ref());
}
