// Package service runs jobs for teams in any language: a job comes in over HTTP, or by an INSERT into the team's own database, and goes
// out as a callback, an HTTP request to an address of the team's.
package service
