//! The workers of a node: the worker of this process, or those of the fleet whose member the node is.

use std::sync::{Arc, OnceLock};

use api::AccountId;

use super::at_rest::KeysAtRest;
use super::bits::PlanCache;
use super::fleet::Fleet;
use super::here::Here;
use super::key::{AccountDigests, KeyName, Share};
use super::numbers::OpenNumbersKey;
use super::{DeviceFacts, Usage, refused};
use crate::caller::Plan;
use crate::web::error::ApiError;

/// The workers of a node.
pub struct Workers {
    accounts: Arc<AccountDigests>,
    plans: Arc<PlanCache>,
    place: Place,
}

enum Place {
    Here(Here),
    Fleet {
        fleet: Fleet,
        /// The worker of this process, if it is one of the fleet's.
        own: Option<Here>,
        at_rest: OnceLock<Arc<dyn KeysAtRest>>,
    },
}

impl Workers {
    /// The worker of this process.
    pub fn here(here: Here) -> Workers {
        Workers { accounts: here.accounts(), plans: here.plans(), place: Place::Here(here) }
    }

    /// The workers of a fleet. `own`: the worker of this process, if it is one of them.
    pub fn of_fleet(fleet: Fleet, own: Option<Here>, accounts: Arc<AccountDigests>) -> Workers {
        let plans = own.as_ref().map(Here::plans).unwrap_or_default();
        Workers { accounts, plans, place: Place::Fleet { fleet, own, at_rest: OnceLock::new() } }
    }

    /// Chooses where keys at rest are found. Only the first call counts.
    pub fn find_keys_in(&self, keys: Arc<dyn KeysAtRest>) {
        match &self.place {
            Place::Here(here) => here.find_keys_in(keys),
            Place::Fleet { at_rest, .. } => drop(at_rest.set(keys)),
        }
    }

    /// Returns what makes the names of accounts.
    pub fn accounts(&self) -> Arc<AccountDigests> {
        self.accounts.clone()
    }

    /// Returns the share of an account with this plan.
    pub fn share(&self, account: &AccountId, plan: Plan) -> Share {
        self.accounts.share(account, plan)
    }

    /// Returns the plans of circuits that this process remembers.
    pub fn plans(&self) -> Arc<PlanCache> {
        self.plans.clone()
    }

    /// Returns the worker of this process, if the process computes.
    pub fn own(&self) -> Option<&Here> {
        match &self.place {
            Place::Here(here) => Some(here),
            Place::Fleet { own, .. } => own.as_ref(),
        }
    }

    /// Returns the fleet whose member this node is.
    pub fn fleet(&self) -> Option<&Fleet> {
        match &self.place {
            Place::Here(_) => None,
            Place::Fleet { fleet, .. } => Some(fleet),
        }
    }

    /// Finds a stored key for encrypted numbers, so that operations can be planned under it.
    ///
    /// # Errors
    /// As [`Here::open_numbers`].
    pub async fn open_numbers(&self, name: KeyName, share: Share) -> Result<OpenNumbersKey, ApiError> {
        match &self.place {
            Place::Here(here) => here.open_numbers(name, share).await,
            Place::Fleet { fleet, at_rest, .. } => {
                let at_rest = at_rest.get().ok_or_else(|| refused(engine::Error::Gone))?;
                fleet.numbers_key(&**at_rest, name, share).await
            }
        }
    }

    /// Closes a stored key that was deleted.
    pub async fn release(&self, name: KeyName) {
        match &self.place {
            Place::Here(here) => here.release(name),
            Place::Fleet { fleet, .. } => fleet.tell_end(name).await,
        }
    }

    /// Returns the devices of this process, including the devices that were taken out of service.
    pub fn devices(&self) -> Vec<DeviceFacts> {
        self.own().map(Here::devices).unwrap_or_default()
    }

    /// Returns the present figures of this process's engine.
    pub fn usage(&self) -> Usage {
        self.own().map(Here::usage).unwrap_or_default()
    }

    /// Returns the build string of the backend of this process. `none`: workers of the fleet compute.
    pub fn backend(&self) -> &str {
        self.own().map_or("none", Here::backend)
    }

    /// Returns the name of this process's first device.
    pub fn device_name(&self) -> &str {
        self.own().map_or("workers of the fleet", Here::device_name)
    }
}
