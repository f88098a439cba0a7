// Package freeport finds ports for programs that are told where to listen.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports to choose from are below those that systems give out by themselves, to whoever
// listens on port 0 and to each connection: one of these may be taken before it is used.
// Linux gives out 32768 and above, others 49152 and above.
const lowest, highest = 20_000, 32_767

// attempts is how often ports are tried before there are thought to be none.
const attempts = 100

// upcoming is the port to try next. Each process begins anywhere and goes on from there, so
// that it finds none twice, and two of them hardly ever the same.
var upcoming = struct {
	sync.Mutex
	port int
}{port: lowest + rand.IntN(highest-lowest+1)}

// Find returns the first of so many ports in a row on which nobody listens at 127.0.0.1. It
// returns none again before it has returned all.
func Find(count int) (first int, err error) {
	for range attempts {
		first = pass(count)
		if err = tryAll(first, count); err == nil {
			return first, nil
		}
	}
	return 0, fmt.Errorf("find %d free ports in a row: %w", count, err)
}

// pass returns the first of so many ports in a row that were not tried lately.
func pass(count int) (first int) {
	upcoming.Lock()
	defer upcoming.Unlock()
	if upcoming.port+count-1 > highest {
		upcoming.port = lowest
	}
	first = upcoming.port
	upcoming.port += count
	return first
}

// tryAll listens on ports, all at the same time.
func tryAll(first, count int) (err error) {
	for port := first; port < first+count && err == nil; port++ {
		listener, failure := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err = failure; err == nil {
			defer func() { err = errors.Join(err, listener.Close()) }()
		}
	}
	return err
}
