package deliver

// Guard decides which addresses may be called: a URL when a task is added, see Check, and each address when a connection is made.
type Guard struct{}
