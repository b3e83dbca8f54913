package store

const (
	ParamsMax      = paramsMax
	AttemptRowsMax = attemptRowsMax
	IsPending      = pending
)

// Replace sends what ReplaceWaiting sends about rows that wait.
var Replace = (*Store).replace
