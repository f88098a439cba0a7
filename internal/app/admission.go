package app

import (
	"math"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"posthaste/internal/admission"
	"posthaste/internal/telemetry"
)

const (
	defaultMaxRequests = 256

	// patience is how long a request waits to be admitted. A client that is refused
	// has waited as long, which bounds how often it can come back.
	patience = 2 * time.Second

	// assumedMemory is what memory is divided of when nobody has set a limit.
	assumedMemory = 2 << 30

	// memoryParts is what memory is divided into: one part is for bodies of requests, one
	// for large messages in flight and half of one for those that wait, one for answers of
	// destinations, one for pages that clients read. What is made of them on their way
	// takes as much again, or twice; the rest is for the store and for connections.
	memoryParts = 8

	mostConnections     = 10_000    // unless a number was set
	memoryPerConnection = 256 << 10 // of the limit; a connection that waits takes a fifth of it
)

// gates limit what requests hold.
type gates struct {
	requests  *admission.Gate // at work
	bodyBytes *admission.Gate // of their bodies
	pageBytes *admission.Gate // of pages until clients have received them
	readers   *admission.Gate // at work on pages
	streams   *admission.Gate // responses that do not end, each of which holds a connection
}

// shares returns the options of a gate that gives a user up to three quarters of its capacity,
// so that nobody can shut out the others, unless the capacity is 1.
func shares(capacity int64, patience time.Duration) admission.Options {
	return admission.Options{
		Capacity: capacity,
		Share:    max(1, min(capacity-1, capacity-capacity/4)),
		Patience: patience,
	}
}

// newGates returns gates that fit the memory limit.
func newGates(options Options) gates {
	return gates{
		requests:  admission.New(shares(int64(options.MaxRequests), patience)),
		bodyBytes: admission.New(shares(memoryOf(options.MemoryLimit)/memoryParts, patience)),
		pageBytes: admission.New(shares(memoryOf(options.MemoryLimit)/memoryParts, readersPatience)),
		readers:   newReaders(options),
		streams:   admission.New(shares(max(1, int64(options.MaxConnections)/2), 0)), // the next one may not end for hours
	}
}

// register exports how many requests wait and are refused at all gates together.
func (g gates) register(registry prometheus.Registerer) {
	telemetry.RegisterAdmission(registry, g.requests.Usage, g.bodyBytes.Usage, g.pageBytes.Usage, g.readers.Usage, g.streams.Usage)
}

// connectionsFor returns how many connections there is memory for.
func connectionsFor(limit int64) int {
	return int(min(mostConnections, max(1, memoryOf(limit)/memoryPerConnection)))
}

// limitMemory makes the runtime collect garbage more often as memory nears the limit;
// 0 leaves it as the environment variable GOMEMLIMIT has it.
func limitMemory(limit int64) {
	if limit > 0 {
		debug.SetMemoryLimit(limit)
	}
}

// memoryOf returns how much memory there is for a limit, 0 for that of the environment.
func memoryOf(limit int64) int64 {
	if limit == 0 {
		limit = debug.SetMemoryLimit(-1) // as it is
	}
	if limit == math.MaxInt64 {
		limit = assumedMemory
	}
	return limit
}
