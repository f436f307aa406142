//! The `requestState` of a parked request. A client keeps it, so it is authenticated: it
//! names the park, when it expires, and the machine that has it, and its MAC covers the
//! method and the params of the request. What is parked does not belong here.

use crate::rng::Rng;
use crate::time::Time;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use hmac::digest::Key;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

#[derive(Debug)]
pub(super) struct States {
    /// The machine's place, by which the shell finds it. May be empty.
    place: String,
    key: Key<Hmac<Sha256>>,
    last: u64,
}

/// Why the proxy does not accept a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// The proxy did not write it, or not for this request.
    Forged,
    Expired,
}

impl States {
    /// The states of a machine, from its place and its secret with a dot between them.
    pub(super) fn of(secret: &str) -> Self {
        let place = secret.split_once('.').map_or("", |(place, _)| place);
        let mut key = Key::<Hmac<Sha256>>::default();
        key.iter_mut().zip(Sha256::digest(secret.as_bytes())).for_each(|(byte, digit)| *byte = digit);
        Self { place: place.to_owned(), key, last: 0 }
    }

    /// The states of a machine with a single client, which could deceive only itself.
    pub(super) fn of_one_client(rng: &mut Rng) -> Self {
        Self::of(&format!(".{:016x}", rng.next()))
    }

    /// The state of a parked request.
    pub(super) fn write(&mut self, until: Time, method: &str, params: &str) -> String {
        self.last += 1;
        let claim = format!("{}.{:x}.{:x}", self.place, self.last, until.0);
        let tag = BASE64.encode(self.mac(&claim, method, params).finalize().into_bytes());
        format!("{claim}.{tag}")
    }

    /// Whether the proxy wrote this state for such a request, and it has not expired.
    pub(super) fn check(&self, now: Time, state: &str, method: &str, params: &str) -> Result<(), Unfit> {
        let (claim, tag) = state.rsplit_once('.').ok_or(Unfit::Forged)?;
        let tag = BASE64.decode(tag).map_err(|_| Unfit::Forged)?;
        self.mac(claim, method, params).verify_slice(&tag).map_err(|_| Unfit::Forged)?;
        if Self::until(state).is_some_and(|until| now < until) { Ok(()) } else { Err(Unfit::Expired) }
    }

    /// When a state expires, if nobody has altered it.
    pub(super) fn until(state: &str) -> Option<Time> {
        let (claim, _) = state.rsplit_once('.')?;
        let (_, until) = claim.rsplit_once('.')?;
        u64::from_str_radix(until, 16).ok().map(Time)
    }

    fn mac(&self, claim: &str, method: &str, params: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new(&self.key);
        for part in [claim, method, params] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_good_for_its_own_request_until_it_expires() {
        let mut states = States::of("place.secret");
        let state = states.write(Time(100), "tools/call", "{}");
        assert!(state.starts_with("place.1.64."), "{state}");
        let check = |states: &States, now, state: &str, method, params| states.check(Time(now), state, method, params);
        assert_eq!(check(&states, 99, &state, "tools/call", "{}"), Ok(()));
        assert_eq!(check(&states, 100, &state, "tools/call", "{}"), Err(Unfit::Expired));
        let later = state.replacen(".64.", ".65.", 1);
        for (state, method, params) in [
            (&*later, "tools/call", "{}"),
            (&state.replacen("place", "other", 1), "tools/call", "{}"),
            (&state, "tools/call", "{ }"),
            (&state, "prompts/get", "{}"),
            (&state, "tools/cal", "l{}"),
            (&state[..state.len() - 2], "tools/call", "{}"),
            ("", "tools/call", "{}"),
            ("place.1.64.", "tools/call", "{}"),
            ("place.1.64", "tools/call", "{}"),
        ] {
            assert_eq!(check(&states, 0, state, method, params), Err(Unfit::Forged), "{state} {method} {params}");
        }
        assert_eq!(check(&States::of("place.other"), 0, &state, "tools/call", "{}"), Err(Unfit::Forged));
        let next = states.write(Time(100), "tools/call", "{}");
        assert_ne!(next, state);
    }
}
