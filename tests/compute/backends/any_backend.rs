//! A backend of any kind as one type, so that one list can hold all of them.

use std::any::Any;

use kernels::tfhe::{EvaluationKey, Gates, KeyedGates, Params, Stems};
use kernels::{Backend, DeviceInfo, Result};

/// A key, an arena or a pending batch of the backend that made it.
pub type Opaque = Box<dyn Any + Send>;

/// Any backend.
pub type AnyBackend = dyn Stems<Key = Opaque, Arena = Opaque, Pending = Opaque>;

/// Hides the types of a backend.
pub fn any<B>(backend: B) -> Box<AnyBackend>
where
    B: Stems<Key: 'static, Arena: 'static, Pending: 'static>,
{
    Box::new(Erased(backend))
}

/// A backend with hidden types.
struct Erased<B>(B);

/// Returns the hidden value with its own type.
fn known<T: 'static>(opaque: &Opaque) -> &T {
    opaque.downcast_ref().expect("a value of this kind of backend")
}

fn known_mut<T: 'static>(opaque: &mut Opaque) -> &mut T {
    opaque.downcast_mut().expect("a value of this kind of backend")
}

fn taken<T: 'static>(opaque: Opaque) -> T {
    *opaque.downcast().expect("a value of this kind of backend")
}

impl<B> Backend for Erased<B>
where
    B: Backend<Arena: 'static, Pending: 'static>,
{
    type Arena = Opaque;
    type Pending = Opaque;

    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }
    fn arena(&self, row_words: usize, slots: usize) -> Result<Opaque> {
        Ok(Box::new(self.0.arena(row_words, slots)?))
    }
    fn grow(&self, arena: &mut Opaque, slots: usize) -> Result<()> {
        self.0.grow(known_mut(arena), slots)
    }
    fn write(&self, arena: &mut Opaque, first: u32, words: &[u32]) -> Result<()> {
        self.0.write(known_mut(arena), first, words)
    }
    fn read(&self, arena: &Opaque, slots: &[u32]) -> Result<Opaque> {
        Ok(Box::new(self.0.read(known(arena), slots)?))
    }
    fn wait(&self, pending: &Opaque, wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        self.0.wait(known(pending), wanted)
    }
    fn finish(&self, pending: Opaque) -> Result<Vec<u32>> {
        self.0.finish(taken(pending))
    }
}

impl<B> Gates for Erased<B>
where
    B: Gates<Key: 'static, Arena: 'static, Pending: 'static>,
{
    type Key = Opaque;

    fn prepare(&self, params: &Params) -> Result<()> {
        self.0.prepare(params)
    }
    fn room_for_key(&self, params: &Params) -> Result<Opaque> {
        Ok(Box::new(self.0.room_for_key(params)?))
    }
    fn load_piece(&self, into: &mut Opaque, piece: usize, key: &EvaluationKey) -> Result<bool> {
        self.0.load_piece(known_mut(into), piece, key)
    }
    fn key_bytes(&self, params: &Params) -> u64 {
        self.0.key_bytes(params)
    }
    fn evaluate_together(&self, batches: &mut [KeyedGates<'_, Opaque, Opaque>]) -> Result<Opaque> {
        let known = batches.iter_mut().map(|KeyedGates { key, arena, gates, cells, ends, reads }| KeyedGates {
            key: known(key),
            arena: known_mut(arena),
            gates,
            cells,
            ends,
            reads,
        });
        let mut batches: Vec<KeyedGates<'_, B::Key, B::Arena>> = known.collect();
        Ok(Box::new(self.0.evaluate_together(&mut batches)?))
    }
}

impl<B> Stems for Erased<B>
where
    B: Stems<Key: 'static, Arena: 'static, Pending: 'static>,
{
    fn bootstrap(&self, key: &Opaque, inputs: &[u32]) -> Result<Vec<u32>> {
        self.0.bootstrap(known(key), inputs)
    }
    fn key_switch(&self, key: &Opaque, inputs: &[u32]) -> Result<Vec<u32>> {
        self.0.key_switch(known(key), inputs)
    }
}
