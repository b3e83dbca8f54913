// Package deliver sends callbacks: it guards against forged addresses, signs, keeps the destinations apart, and judges the answers.
package deliver
