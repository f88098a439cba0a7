// Package posthaste is the vocabulary of the Posthaste message delivery
// service: what a message, an attempt, an event of the log, a dead letter is,
// and which values of each are valid.
//
// Every other package speaks in these types and none of them redefines one.
// The package depends on the standard library alone and holds no behaviour
// that needs a clock, a disk or a network.
package posthaste
