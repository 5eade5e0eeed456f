//! The watchdog: devices that do not report in time are given up. Their operations run on other devices or end. The key
//! of a closed session is then erased only on the host and on the other devices. Later reports are ignored.

use std::time::Duration;

use super::{Cause, Command, Event, Failure, Scheduler};
use crate::ids::{BatchId, DeviceId};

/// A call may take this many times the duration that is expected from the measured pace.
const PATIENCE: u32 = 32;

impl Scheduler {
    /// Whether a batch's report is awaited.
    pub fn awaits(&self, batch: BatchId) -> bool {
        self.devices.iter().any(|device| device.running().any(|running| running.id == batch))
    }

    /// Whether a device was given up.
    pub fn given_up(&self, device: DeviceId) -> bool {
        self.devices[device.0].given_up
    }

    /// Whether an event is the report of a device that was given up.
    pub(super) fn is_late(&mut self, event: &Event) -> bool {
        match event {
            Event::Loaded { device, .. }
            | Event::LoadFailed { device, .. }
            | Event::Evicted { device, .. }
            | Event::Lost { device, .. }
            | Event::Died { device, .. }
            | Event::Retired(device) => self.devices[device.0].given_up,
            Event::BatchDone(batch) | Event::BatchFailed { batch, .. } => {
                self.devices.iter_mut().any(|device| device.unreported.remove(batch))
            }
            _ => false,
        }
    }

    /// Records that a device has reported.
    pub(super) fn heard(&mut self, device: DeviceId) {
        self.devices[device.0].silent_since = None;
    }

    /// At the end of a step: starts the clock of each device that owes a report, unless that clock already runs.
    pub(super) fn watch(&mut self, now: Duration) {
        for device in &mut self.devices {
            let since = device.silent_since.unwrap_or(now);
            device.silent_since = device.owes_report().then_some(since);
        }
    }

    /// The time at which the next device is given up if none reports.
    pub(super) fn next_silence(&self) -> Option<Duration> {
        (0..self.devices.len()).filter_map(|device| self.silence_ends(DeviceId(device))).min()
    }

    fn silence_ends(&self, device: DeviceId) -> Option<Duration> {
        let books = &self.devices[device.0];
        let cost = books.calls.iter().map(|call| call.cost).max().unwrap_or(0);
        let patience = self.pace.expected(cost).saturating_mul(PATIENCE).max(self.limits.silence_max);
        Some(books.silent_since?.saturating_add(patience))
    }

    pub(super) fn give_up_silent_devices(&mut self, now: Duration) {
        for device in (0..self.devices.len()).map(DeviceId) {
            if let Some(end) = self.silence_ends(device)
                && end <= now
            {
                let silent = now.saturating_sub(self.devices[device.0].silent_since.unwrap_or(now));
                self.give_up(
                    now,
                    device,
                    &format!("device lost: the device did not report for {} s", silent.as_secs()),
                );
            }
        }
    }

    /// Takes a device out of service like a lost one, and settles everything that it owes.
    pub(super) fn give_up(&mut self, now: Duration, device: DeviceId, reason: &str) {
        if self.devices[device.0].retired {
            return;
        }
        self.commands.push(Command::GiveUp(device));
        self.devices[device.0].given_up = true;
        self.lose(device, reason);
        let failure = Failure { cause: Cause::Lost, reason: reason.to_owned() };
        let batches: Vec<_> = self.devices[device.0].running().map(|batch| batch.id).collect();
        for batch in batches {
            self.devices[device.0].unreported.insert(batch);
            self.batch_failed(now, batch, failure.clone());
        }
        if let Some(session) = self.devices[device.0].loading.as_ref().map(|loading| loading.session) {
            self.load_failed(device, session, failure);
        }
        for session in std::mem::take(&mut self.devices[device.0].emptied) {
            self.free_arena(device, session);
        }
        self.free_idle_arenas(device);
        self.retired(device);
    }
}
