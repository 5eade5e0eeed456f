//! Jobs that only one node at a time may do. The node holds a lease on the job.

use crate::database::{Tx, values};
use crate::{Result, Store};

impl Store {
    /// Takes a job's lease or renews it. False: another node holds the lease.
    pub async fn take_job(&self, name: &str, node_id: &str, now: i64, leased_until: i64) -> Result<bool> {
        let sql = "INSERT INTO jobs (name, node_id, leased_until, done_through) VALUES ($1, $2, $4, 0) \
             ON CONFLICT (name) DO UPDATE SET node_id = excluded.node_id, leased_until = excluded.leased_until \
             WHERE jobs.node_id = excluded.node_id OR jobs.leased_until <= $3";
        Ok(self.db.execute(sql, values![name, node_id, now, leased_until]).await? == 1)
    }

    /// Returns the number of the last step that a job has done, as recorded by [`Store::note_job`]. 0: the job has done
    /// no step.
    pub async fn job_done_through(&self, name: &str) -> Result<i64> {
        let row: Option<(i64,)> =
            self.db.fetch_optional("SELECT done_through FROM jobs WHERE name = $1", values![name]).await?;
        Ok(row.map_or(0, |(done_through,)| done_through))
    }

    /// Records the number of the last step that a job has done. The recorded number never decreases.
    pub async fn note_job(&self, name: &str, done_through: i64) -> Result<()> {
        self.write(async |tx: &mut Tx| {
            let sql = "UPDATE jobs SET done_through = $2 WHERE name = $1 AND done_through < $2";
            tx.execute(sql, values![name, done_through]).await.map(drop)
        })
        .await
    }
}
