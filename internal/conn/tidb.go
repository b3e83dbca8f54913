package conn

// TiDB speaks MySQL's language, and gets MySQL's statements but for what stands here.
var TiDB = func() Dialect {
	d := mysqlFamily("TiDB")
	// TiDB refuses LOCK IN SHARE MODE (error 1235) unless a global variable says otherwise. FOR UPDATE sees the same rows.
	// The family does not say it, because MariaDB then finds deadlocks where several callers add one key.
	d.LockingRead = " FOR UPDATE"
	d.HoldingRead = d.LockingRead
	// In a transaction, TiDB locks the rows below a derived table that is read FOR UPDATE. And nothing has to be sent to a
	// primary here: each server reads what is committed.
	d.latest = "%s"
	// TiDB knows NOWAIT, and refuses SKIP LOCKED.
	d.SkipLocked = ""
	d.UnlessHeld = patiently
	d.session = "SELECT @@autocommit" // its replicas are sent rows
	// It evaluates both sides of IF, for many rows at a time. And INTERVAL ( is a function's beginning to it, wherever it stands.
	d.InTime = "SYSDATE(6) NOT BETWEEN NOW(6) + INTERVAL %d000 - UNIX_TIMESTAMP() * 1000000 - MICROSECOND(NOW(6)) MICROSECOND " +
		"AND NOW(6) + INTERVAL 1 DAY"
	// TiDB heeds neither of the comments by which the family sets the time zone of an UPDATE. So a session whose zone has
	// summer time is an hour off for an hour each autumn, both when it writes a lease and when it reads one. The session of
	// our own is in UTC.
	d.LeaseUpdate = "UPDATE shedlock_tab FORCE INDEX (PRIMARY)"
	d.Sickness = "" // it has no undo logs: what its garbage collection waits for, it ends by itself
	d.UnlockedLeases, d.NamesFirst = d.LeaseUpdate+" SET %s WHERE lock_name IN (?) AND %s", false
	return d
}()
