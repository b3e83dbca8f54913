package persistent_queue

// BasedOn is what WithBaseContext does to a handler.
var BasedOn = basedOn
