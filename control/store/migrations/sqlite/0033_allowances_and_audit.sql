-- Numbers of compute units that are included in an account's month, in place of the plan's number (readings P11): after
-- a change of plan in the middle of the month. Months count from year 0, UTC.
CREATE TABLE month_allowances (
    account_id TEXT NOT NULL,
    month      INTEGER NOT NULL,
    fcu        INTEGER NOT NULL CHECK (fcu >= 0),
    PRIMARY KEY (account_id, month)
) STRICT, WITHOUT ROWID;
