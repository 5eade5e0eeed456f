-- The ledger: what accounts reserved, used and owe. All amounts are integers in their own units (readings P1): operations of a trial,
-- compute units, billionths of a dollar, thousandths of a yen. Months count from year 0, UTC; trials are in month 0.
-- No column refers to accounts: a node of the release before erases a trial's account without these tables.
-- As migrations/sqlite, with PostgreSQL's names of types.

-- One row for each account with transfers: what reserves or settles locks it.
CREATE TABLE ledger_accounts (
    account_id TEXT NOT NULL PRIMARY KEY
);

-- Append only. A reservation is a pending row; a second row says what became of it.
CREATE TABLE transfers (
    transfer_id      TEXT NOT NULL,
    phase            TEXT NOT NULL CHECK (phase IN ('pending', 'posted', 'voided')),
    account_id       TEXT NOT NULL,
    month            BIGINT NOT NULL,
    -- the rate of its time: thousandths of a yen for a dollar
    usd_milli_jpy    BIGINT NOT NULL,
    trial_operations BIGINT NOT NULL CHECK (trial_operations >= 0),
    fcu              BIGINT NOT NULL CHECK (fcu >= 0),
    nano_usd         BIGINT NOT NULL CHECK (nano_usd >= 0),
    milli_yen        BIGINT NOT NULL CHECK (milli_yen >= 0),
    -- the node that wrote the row
    node_id          TEXT NOT NULL,
    created_at       BIGINT NOT NULL,
    PRIMARY KEY (transfer_id, phase)
);

CREATE INDEX transfers_of_account ON transfers (account_id, transfer_id);

-- Reservations that are neither posted nor voided: few, those of work that is under way.
CREATE TABLE open_reservations (
    transfer_id      TEXT NOT NULL PRIMARY KEY,
    account_id       TEXT NOT NULL,
    month            BIGINT NOT NULL,
    usd_milli_jpy    BIGINT NOT NULL,
    trial_operations BIGINT NOT NULL,
    fcu              BIGINT NOT NULL,
    nano_usd         BIGINT NOT NULL,
    milli_yen        BIGINT NOT NULL,
    -- the node that works on it
    node_id          TEXT NOT NULL,
    created_at       BIGINT NOT NULL
);

CREATE INDEX open_reservations_of_node ON open_reservations (node_id);

-- Sums of an account's posted transfers and open reservations, by month and rate. A trial's operations are summed in its own row.
CREATE TABLE ledger_balances (
    account_id         TEXT NOT NULL,
    month              BIGINT NOT NULL,
    usd_milli_jpy      BIGINT NOT NULL,
    fcu                BIGINT NOT NULL CHECK (fcu >= 0),
    fcu_reserved       BIGINT NOT NULL CHECK (fcu_reserved >= 0),
    nano_usd           BIGINT NOT NULL CHECK (nano_usd >= 0),
    nano_usd_reserved  BIGINT NOT NULL CHECK (nano_usd_reserved >= 0),
    milli_yen          BIGINT NOT NULL CHECK (milli_yen >= 0),
    milli_yen_reserved BIGINT NOT NULL CHECK (milli_yen_reserved >= 0),
    PRIMARY KEY (account_id, month, usd_milli_jpy)
);

-- Operations that an account completed in a month, by name; gates are gate_nand and so on.
CREATE TABLE operation_counts (
    account_id TEXT NOT NULL,
    month      BIGINT NOT NULL,
    operation  TEXT NOT NULL,
    count      BIGINT NOT NULL CHECK (count >= 0),
    PRIMARY KEY (account_id, month, operation)
);

-- The monthly cap on what an account spends.
CREATE TABLE budgets (
    account_id         TEXT NOT NULL PRIMARY KEY,
    cap_nano_usd       BIGINT NOT NULL CHECK (cap_nano_usd > 0),
    hard_cap           BOOLEAN NOT NULL,
    allow_soft_overage BOOLEAN NOT NULL,
    alert_email        TEXT NOT NULL,
    updated_at         BIGINT NOT NULL
);

-- The usage row's transfer; none where nothing was to pay.
ALTER TABLE gate_usage ADD COLUMN transfer_id TEXT;
ALTER TABLE arithmetic_usage ADD COLUMN transfer_id TEXT;
