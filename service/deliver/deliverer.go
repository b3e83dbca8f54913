package deliver

import (
	"log/slog"
	"time"
)

// Config is what a Deliverer needs.
type Config struct {
	// Guard says which addresses may be called. Nil: public ones only.
	Guard *Guard
	// InFlight is how many calls run at a time at most, over all topics. Default: what the limit of open files leaves room for, 4,096 at
	// most.
	InFlight int
	// UserAgent defaults to "pqueue/1.0".
	UserAgent string
	// Resolver looks up hosts. Nil: the resolver of the system's configuration. What it answers is kept for 30 seconds.
	Resolver Resolver
	// Logger hears when a breaker opens or closes. Nil: nobody does.
	Logger *slog.Logger
}

// Destination is what is known of a destination: of an origin, with an empty Topic, or of what one topic sends there.
type Destination struct {
	Origin string // such as https://shop.example:8443
	Topic  string // empty: what all topics have in common, that is whether connections can be made
	State  DestinationState
	// OpenUntil is when the next call may go out, if State is Open or Paused.
	OpenUntil time.Time
	// Why is the last failure's code, if State is not Healthy.
	Why      Code
	InFlight int
	Limit    int     // how many calls may run at a time now; 0 for an origin
	Rate     float64 // how many calls came back per second lately
	LastUsed time.Time
}

// DestinationState says whether calls go to a destination.
type DestinationState string

const (
	Healthy  DestinationState = "healthy"
	Starting DestinationState = "starting" // it has just come back: the rate doubles each second
	Probing  DestinationState = "probing"  // one call finds out whether it has come back
	Open     DestinationState = "open"     // the breaker is open: no call goes out
	Paused   DestinationState = "paused"   // the receiver asked for a pause
)
