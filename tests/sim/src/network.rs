//! The simulated network: one ordered pipe per call, with latency, random cuts into chunks,
//! and at most one fault, chosen when the call begins. The contents of messages do not
//! belong here.

use crate::dice::{Chance, Dice, Owner};
use crate::luck::Luck;
use crate::server::{Frame, Headers};
use crate::weather::Weather;
use mcp_proxy_core::{CallError, CallId};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub(crate) struct Network {
    dice: Dice,
    latency: u64,
    harm: u64,
    idle_cut: Option<u64>,
    pipes: BTreeMap<CallId, Pipe>,
    pub(crate) luck: Luck,
}

/// The pipe for the response of one call.
#[derive(Debug)]
struct Pipe {
    fate: Fate,
    /// When the last piece arrives; no later piece overtakes it.
    last: u64,
    /// When the last byte arrived.
    active: u64,
    /// Pieces that have arrived and that the machine has not read.
    arrived: VecDeque<Piece>,
    closed: bool,
}

/// A piece that arrives at the machine.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Head(u16, Headers),
    Chunk(Vec<u8>),
    End,
    Failed(CallError),
}

/// What to do with a response that may have been silent for too long.
#[derive(Debug)]
pub(crate) enum Look {
    Again(u64),
    Cut(Piece),
}

/// The fault of a call, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Fine,
    /// No connection.
    Refused(CallError),
    /// The request never arrives.
    Lost,
    /// The request arrives twice; only the first response comes back.
    Doubled,
    /// The request arrives, the response does not.
    ResetBeforeHead(CallError),
    /// The request arrives, but nothing comes back, not even an error.
    Mute,
    /// The connection breaks after this many bytes of the body.
    Cut(u64, CallError),
    /// The connection breaks after this long.
    CutAfter(u64, CallError),
    /// The body ends after this many bytes, as if it were complete.
    HalfClose(u64),
    /// After this many bytes nothing arrives, not even an error.
    Stall(u64),
}

const REFUSALS: [CallError; 5] =
    [CallError::Refused, CallError::Unresolved, CallError::ConnectTimeout, CallError::Tls, CallError::Denied];
/// How an established connection breaks; the break may cut a chunk in two.
const BREAKS: [CallError; 2] = [CallError::Reset, CallError::Protocol];

impl Network {
    pub(crate) fn new(chance: Chance<'_>, weather: &Weather, faults: u64) -> Self {
        let (dice, luck) = (chance.dice(Owner::Network), Luck::new(faults));
        let (latency, harm, idle_cut) = (weather.latency, weather.harm, weather.idle_cut);
        Self { dice, latency, harm, idle_cut, pipes: BTreeMap::new(), luck }
    }

    /// Begins a call. Returns its fault and its latency.
    pub(crate) fn begin(&mut self, call: CallId) -> (Fate, u64) {
        let fate = self.fate();
        self.pipes.insert(call, Pipe { fate, last: 0, active: 0, arrived: VecDeque::new(), closed: false });
        (fate, self.delay())
    }

    pub(crate) fn delay(&mut self) -> u64 {
        self.dice.between(0, self.latency)
    }

    fn fate(&mut self) -> Fate {
        let (harmed, fate) = (self.dice.chance(self.harm), self.some_fate());
        if harmed && self.luck.strikes() { fate } else { Fate::Fine }
    }

    fn some_fate(&mut self) -> Fate {
        let most = self.dice.pick(&[300, 3000], 300);
        let bytes = self.dice.between(0, most);
        let broken = self.dice.pick(&BREAKS, CallError::Reset);
        match self.dice.between(0, 10) {
            0 | 1 => Fate::Refused(self.dice.pick(&REFUSALS, CallError::Refused)),
            2 => Fate::Lost,
            3 => Fate::Doubled,
            4 => Fate::ResetBeforeHead(broken),
            5 => Fate::Mute,
            6 | 7 => Fate::Cut(bytes, broken),
            8 => Fate::HalfClose(bytes),
            9 => Fate::CutAfter(self.dice.between(0, 60_000), broken),
            _ => Fate::Stall(bytes),
        }
    }

    /// The server sends a frame. Returns its pieces and when each arrives.
    pub(crate) fn send(&mut self, now: u64, call: CallId, frame: Frame) -> Vec<(u64, Piece)> {
        let still = self.pipes.get(&call).is_some_and(|pipe| matches!(pipe.fate, Fate::Mute | Fate::Stall(0)));
        let pieces = match frame {
            Frame::Head(status, headers) => vec![Piece::Head(status, headers)],
            Frame::Chunk(bytes) => self.chunks(call, &bytes),
            Frame::End => vec![Piece::End],
            Frame::Cut => vec![Piece::Failed(CallError::Reset)],
        };
        let mut out = Vec::new();
        for piece in pieces.into_iter().filter(|_| !still) {
            let delay = self.delay();
            let Some(pipe) = self.pipes.get_mut(&call).filter(|pipe| !pipe.closed) else { break };
            pipe.last = pipe.last.max(now + delay);
            pipe.closed = matches!(piece, Piece::End | Piece::Failed(_));
            out.push((pipe.last, piece));
        }
        out
    }

    /// Cuts bytes into chunks, as far as the call's fault lets them pass.
    fn chunks(&mut self, call: CallId, bytes: &[u8]) -> Vec<Piece> {
        let Some(pipe) = self.pipes.get_mut(&call) else { return Vec::new() };
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let (pass, end) = match &mut pipe.fate {
            Fate::Cut(left, error) => (spend(left, length), Some(Piece::Failed(*error))),
            Fate::HalfClose(left) => (spend(left, length), Some(Piece::End)),
            Fate::Stall(left) => (spend(left, length), None),
            Fate::Fine
            | Fate::Refused(_)
            | Fate::Lost
            | Fate::Doubled
            | Fate::ResetBeforeHead(_)
            | Fate::CutAfter(..)
            | Fate::Mute => (length, None),
        };
        let mut rest = bytes.get(..usize::try_from(pass).unwrap_or(0)).unwrap_or_default();
        let mut pieces = Vec::new();
        let most = if rest.len() > 2000 { 65_536 } else { dice_size(&mut self.dice) };
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(most.min(rest.len()));
            pieces.push(Piece::Chunk(piece.to_vec()));
            rest = tail;
        }
        if pass < length {
            pieces.extend(end);
        }
        pieces
    }

    pub(crate) fn arrive(&mut self, now: u64, call: CallId, piece: Piece) {
        if let Some(pipe) = self.pipes.get_mut(&call) {
            pipe.active = now;
            pipe.arrived.push_back(piece);
        }
    }

    /// A response begins, or has been silent. Returns when to check it again.
    pub(crate) fn look(&mut self, now: u64, call: CallId) -> Option<Look> {
        let (idle, pipe) = (self.idle_cut?, self.pipes.get_mut(&call)?);
        if now < pipe.active + idle {
            return Some(Look::Again(pipe.active + idle - now));
        }
        pipe.closed = true;
        Some(Look::Cut(if self.dice.chance(50) { Piece::End } else { Piece::Failed(CallError::Reset) }))
    }

    /// The calls that have bytes for the machine.
    pub(crate) fn readable(&self) -> Vec<CallId> {
        self.pipes.iter().filter(|(_, pipe)| !pipe.arrived.is_empty()).map(|(call, _)| *call).collect()
    }

    pub(crate) fn next_is_head(&self, call: CallId) -> bool {
        self.pipes.get(&call).is_some_and(|pipe| matches!(pipe.arrived.front(), Some(Piece::Head(..))))
    }

    pub(crate) fn read(&mut self, call: CallId) -> Option<Piece> {
        let piece = self.pipes.get_mut(&call)?.arrived.pop_front()?;
        if matches!(piece, Piece::End | Piece::Failed(_)) {
            self.pipes.remove(&call);
        }
        Some(piece)
    }

    pub(crate) fn drop_call(&mut self, call: CallId) {
        self.pipes.remove(&call);
    }
}

/// Takes up to `wanted` from `left`.
fn spend(left: &mut u64, wanted: u64) -> u64 {
    let spent = wanted.min(*left);
    *left -= spent;
    spent
}

fn dice_size(dice: &mut Dice) -> usize {
    let most = dice.pick(&[1, 7, 100, 65_536], 100);
    usize::try_from(dice.between(1, most)).unwrap_or(1)
}
