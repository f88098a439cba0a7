package pgtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// The ports that FreePorts chooses from. Systems give higher ones to outgoing connections
// and to programs that listen on port 0 (Linux: 32768 and above), so one of those could be
// taken before the test uses it.
const lowest, highest = 20_000, 32_767

// tried counts the ports that were tried. Each process starts anywhere, so that two of them
// rarely find the same port.
var tried atomic.Int64

func init() { tried.Store(rand.Int64N(highest - lowest)) }

// FreePorts returns the first of n consecutive ports on which nobody listens at 127.0.0.1. It
// returns no port again before it has returned all others.
func FreePorts(n int) (first int, err error) {
	const attempts = 100
	for range attempts {
		first = lowest + int(tried.Add(int64(n)))%(highest-lowest-n+1)
		if err = listenOn(first, n); err == nil {
			return first, nil
		}
	}
	return 0, fmt.Errorf("find %d consecutive free ports: %w", n, err)
}

// listenOn listens on n ports at the same time, and closes them.
func listenOn(first, n int) (err error) {
	for port := first; port < first+n && err == nil; port++ {
		listener, failure := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err = failure; err == nil {
			defer func() { err = errors.Join(err, listener.Close()) }()
		}
	}
	return err
}
