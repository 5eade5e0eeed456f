//! A backend of any kind as one type, so that cases and devices meet in a list.

use std::any::Any;

use kernels::tfhe::{EvaluationKey, Params};
use kernels::{Backend, DeviceInfo, KeyedGates, Result};

/// A key, an arena or a batch under way, of the backend that made it.
pub type Opaque = Box<dyn Any + Send>;

/// Any backend.
pub struct AnyBackend(Box<dyn Erased>);

impl AnyBackend {
    pub fn new<B: Backend<Key: 'static, Arena: 'static, Pending: 'static>>(backend: B) -> AnyBackend {
        AnyBackend(Box::new(backend))
    }
}

/// [`Backend`] without its types.
trait Erased: Send + Sync + 'static {
    fn info(&self) -> &DeviceInfo;
    fn load_key(&self, key: &EvaluationKey) -> Result<Opaque>;
    fn key_bytes(&self, params: &Params) -> u64;
    fn arena(&self, params: &Params, slots: usize) -> Result<Opaque>;
    fn grow(&self, arena: &mut Opaque, slots: usize) -> Result<()>;
    fn write(&self, arena: &mut Opaque, first: u32, words: &[u32]) -> Result<()>;
    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, AnyBackend>]) -> Result<Opaque>;
    fn finish(&self, pending: Opaque) -> Result<Vec<u32>>;
    fn bootstrap(&self, key: &Opaque, inputs: &[u32]) -> Result<Vec<u32>>;
    fn key_switch(&self, key: &Opaque, inputs: &[u32]) -> Result<Vec<u32>>;
}

/// What it was before it was made opaque.
fn known<T: 'static>(opaque: &Opaque) -> &T {
    opaque.downcast_ref().expect("made by this kind of backend")
}

fn known_mut<T: 'static>(opaque: &mut Opaque) -> &mut T {
    opaque.downcast_mut().expect("made by this kind of backend")
}

impl<B: Backend<Key: 'static, Arena: 'static, Pending: 'static>> Erased for B {
    fn info(&self) -> &DeviceInfo {
        Backend::info(self)
    }
    fn load_key(&self, key: &EvaluationKey) -> Result<Opaque> {
        Ok(Box::new(Backend::load_key(self, key)?))
    }
    fn key_bytes(&self, params: &Params) -> u64 {
        Backend::key_bytes(self, params)
    }
    fn arena(&self, params: &Params, slots: usize) -> Result<Opaque> {
        Ok(Box::new(Backend::arena(self, params, slots)?))
    }
    fn grow(&self, arena: &mut Opaque, slots: usize) -> Result<()> {
        Backend::grow(self, known_mut(arena), slots)
    }
    fn write(&self, arena: &mut Opaque, first: u32, words: &[u32]) -> Result<()> {
        Backend::write(self, known_mut(arena), first, words)
    }
    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, AnyBackend>]) -> Result<Opaque> {
        let known = batches.iter_mut().map(|KeyedGates { key, arena, gates, reads }| KeyedGates {
            key: known(key),
            arena: known_mut(arena),
            gates,
            reads,
        });
        let mut batches: Vec<KeyedGates<'_, B>> = known.collect();
        Ok(Box::new(Backend::evaluate_together(self, &mut batches)?))
    }
    fn finish(&self, pending: Opaque) -> Result<Vec<u32>> {
        Backend::finish(self, *pending.downcast().expect("made by this kind of backend"))
    }
    fn bootstrap(&self, key: &Opaque, inputs: &[u32]) -> Result<Vec<u32>> {
        Backend::bootstrap(self, known(key), inputs)
    }
    fn key_switch(&self, key: &Opaque, inputs: &[u32]) -> Result<Vec<u32>> {
        Backend::key_switch(self, known(key), inputs)
    }
}

impl Backend for AnyBackend {
    type Key = Opaque;
    type Arena = Opaque;
    type Pending = Opaque;

    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }
    fn load_key(&self, key: &EvaluationKey) -> Result<Opaque> {
        self.0.load_key(key)
    }
    fn key_bytes(&self, params: &Params) -> u64 {
        self.0.key_bytes(params)
    }
    fn arena(&self, params: &Params, slots: usize) -> Result<Opaque> {
        self.0.arena(params, slots)
    }
    fn grow(&self, arena: &mut Opaque, slots: usize) -> Result<()> {
        self.0.grow(arena, slots)
    }
    fn write(&self, arena: &mut Opaque, first: u32, words: &[u32]) -> Result<()> {
        self.0.write(arena, first, words)
    }
    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, AnyBackend>]) -> Result<Opaque> {
        self.0.evaluate_together(batches)
    }
    fn finish(&self, pending: Opaque) -> Result<Vec<u32>> {
        self.0.finish(pending)
    }
    fn bootstrap(&self, key: &Opaque, inputs: &[u32]) -> Result<Vec<u32>> {
        self.0.bootstrap(key, inputs)
    }
    fn key_switch(&self, key: &Opaque, inputs: &[u32]) -> Result<Vec<u32>> {
        self.0.key_switch(key, inputs)
    }
}
