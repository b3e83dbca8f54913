//go:build !race

package tests

// slack stretches bounds on time; without the race detector they hold as they are.
const slack = 1
