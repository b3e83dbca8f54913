//go:build race

package tests

// slack stretches bounds on time: the race detector makes everything slower, and says nothing about speed.
const slack = 5
