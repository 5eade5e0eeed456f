//! The forms in which work and answers pass the broker. A message is a head, and behind it the content. Both have a version:
//! members of two neighbouring versions work side by side.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::broker::{Lane, Queue, is_name};
use crate::presence::SPEAKS;

/// Largest size in bytes of a message's head.
const HEAD_BYTES_MAX: usize = 4 << 10;
/// Longest time that is left for work.
const LEFT_MAX: Duration = Duration::from_secs(8 * 24 * 3600);

/// The head of a message of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkHead {
    /// The version of the message.
    pub version: u32,
    /// The work's id. Work that is published again has the same id.
    pub id: String,
    /// How often the work was published, this time included. An answer names the attempt.
    pub attempt: u32,
    /// The member that waits for the answer.
    pub member: String,
    /// The time in milliseconds until the work's deadline. Clocks of machines differ and may jump, so no time of day passes.
    pub left_ms: u64,
    /// The size of the work: gates, or steps.
    pub units: u64,
}

/// Bytes that are no message, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a message: {0}")]
pub struct NotMessage(&'static str);

impl WorkHead {
    /// Writes a message: the length of the head (4 bytes, little-endian), the head, the content.
    pub fn write(&self, content: &[u8]) -> Bytes {
        let head = serde_json::to_vec(self).expect("texts and numbers are JSON");
        let mut bytes = BytesMut::with_capacity(4 + head.len() + content.len());
        bytes.put_u32_le(head.len() as u32);
        bytes.put_slice(&head);
        bytes.put_slice(content);
        bytes.freeze()
    }

    /// Reads a message. Returns the head and the content.
    ///
    /// # Errors
    /// When the bytes are no message of a version that this build reads.
    pub fn read(mut bytes: Bytes) -> Result<(WorkHead, Bytes), NotMessage> {
        let Some((length, _)) = bytes.split_first_chunk::<4>() else { return Err(NotMessage("it is too short")) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > HEAD_BYTES_MAX || bytes.len() < 4 + length {
            return Err(NotMessage("the head has no such length"));
        }
        let content = bytes.split_off(4 + length);
        let head: WorkHead = serde_json::from_slice(&bytes[4..]).map_err(|_| NotMessage("the head is not readable"))?;
        if !(SPEAKS[0]..=SPEAKS[1]).contains(&head.version) {
            return Err(NotMessage("another version"));
        }
        if !is_name(&head.id) || !is_name(&head.member) || head.left() > LEFT_MAX {
            return Err(NotMessage("a member of the head has no such value"));
        }
        Ok((head, content))
    }

    /// Returns the time until the work's deadline.
    pub fn left(&self) -> Duration {
        Duration::from_millis(self.left_ms)
    }
}

/// Writes a call for help: the lane's worker, and before it `ops.` for a lane of operations.
pub fn help_for(lane: &Lane) -> Bytes {
    match lane.queue {
        Queue::Run => Bytes::copy_from_slice(lane.worker.as_bytes()),
        Queue::Operations => Bytes::from(format!("ops.{}", lane.worker)),
    }
}

/// Reads a call for help. `None`: the bytes are no such call.
pub fn read_help(content: &[u8]) -> Option<(Queue, &str)> {
    let text = std::str::from_utf8(content).ok()?;
    let (queue, worker) = match text.strip_prefix("ops.") {
        Some(worker) => (Queue::Operations, worker),
        None => (Queue::Run, text),
    };
    is_name(worker).then_some((queue, worker))
}

/// An answer to the member that asked for some work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The work's id.
    pub id: String,
    /// The word.
    pub word: Word,
}

/// A worker's word about some work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A worker has the work. So many units are done.
    Runs(u64),
    /// The message of this attempt was no use, for example because its token was spent. Publish the work again.
    Again(u32),
    /// The end of the work.
    Ended(Bytes),
}

impl Answer {
    /// Writes an answer: a byte for the word, the length of the id (1 byte), the id, the content.
    pub fn write(&self) -> Bytes {
        let (word, content) = match &self.word {
            Word::Runs(done) => (1, Bytes::copy_from_slice(&done.to_le_bytes())),
            Word::Again(attempt) => (2, Bytes::copy_from_slice(&attempt.to_le_bytes())),
            Word::Ended(content) => (3, content.clone()),
        };
        let mut bytes = BytesMut::with_capacity(2 + self.id.len() + content.len());
        bytes.put_u8(word);
        bytes.put_u8(self.id.len() as u8);
        bytes.put_slice(self.id.as_bytes());
        bytes.put_slice(&content);
        bytes.freeze()
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// When the bytes are no answer.
    pub fn read(mut bytes: Bytes) -> Result<Answer, NotMessage> {
        let &[word, length, ..] = &bytes[..] else { return Err(NotMessage("it is too short")) };
        if bytes.len() < 2 + usize::from(length) {
            return Err(NotMessage("it is too short"));
        }
        let content = bytes.split_off(2 + usize::from(length));
        let id = std::str::from_utf8(&bytes[2..]).ok().filter(|id| is_name(id)).ok_or(NotMessage("no id"))?.to_owned();
        let number = || content[..].try_into().map_err(|_| NotMessage("no number"));
        let word = match word {
            1 => Word::Runs(u64::from_le_bytes(number()?)),
            2 => Word::Again(u32::from_le_bytes(content[..].try_into().map_err(|_| NotMessage("no number"))?)),
            3 => Word::Ended(content),
            _ => return Err(NotMessage("an unknown word")),
        };
        Ok(Answer { id, word })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> WorkHead {
        WorkHead {
            version: SPEAKS[1],
            id: "op_1".to_owned(),
            attempt: 1,
            member: "node".to_owned(),
            left_ms: 300_000,
            units: 3,
        }
    }

    #[test]
    fn work_is_read_as_it_was_written_and_cut_or_foreign_bytes_are_refused() {
        let bytes = head().write(b"content");
        assert_eq!(WorkHead::read(bytes.clone()).unwrap(), (head(), Bytes::from_static(b"content")));
        for length in 0..bytes.len() - b"content".len() {
            assert!(WorkHead::read(bytes.slice(..length)).is_err(), "{length}");
        }
        let refused = |change: fn(&mut WorkHead)| {
            let mut head = head();
            change(&mut head);
            WorkHead::read(head.write(b"")).is_err()
        };
        assert!(refused(|head| head.version = SPEAKS[1] + 1));
        assert!(refused(|head| head.member = "a.b".to_owned()));
        assert!(refused(|head| head.id = String::new()));
        assert!(refused(|head| head.left_ms = u64::MAX));
        assert!(WorkHead::read(Bytes::from_static(&[255, 255, 255, 255, 1])).is_err());
    }

    #[test]
    fn calls_for_help_name_a_lane_and_its_queue() {
        for queue in [Queue::Run, Queue::Operations] {
            let lane = Lane { queue, pool: "p".to_owned(), worker: "w-1".to_owned() };
            assert_eq!(read_help(&help_for(&lane)), Some((queue, "w-1")));
        }
        for wrong in [&b""[..], b"ops.", b"run.w", b"\xff"] {
            assert_eq!(read_help(wrong), None);
        }
    }

    #[test]
    fn answers_are_read_as_they_were_written_and_cut_bytes_are_refused() {
        for word in [Word::Runs(u64::MAX), Word::Again(7), Word::Ended(Bytes::from_static(b"end"))] {
            let answer = Answer { id: "op_1".to_owned(), word };
            let bytes = answer.write();
            assert_eq!(Answer::read(bytes.clone()).unwrap(), answer);
            for length in 0..bytes.len() {
                let cut = Answer::read(bytes.slice(..length));
                assert!(cut.is_err() || matches!(cut, Ok(Answer { word: Word::Ended(_), .. })), "{length}");
            }
        }
        assert!(Answer::read(Bytes::from_static(b"\x04\x01a")).is_err());
        assert!(Answer::read(Bytes::from_static(b"\x01\x03a.b12345678")).is_err());
    }
}
