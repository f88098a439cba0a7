package pgtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports that FreePorts chooses from. Systems give higher ones to outgoing connections
// and to programs that listen on port 0 (Linux: 32768 and above), so one of those could be
// taken before the test uses it.
const lowest, highest = 20_000, 32_767

// blockSize is how many ports a process takes at once: it listens on the first one for as long as it
// lives, so no other process gets the others, whether or not anything listens on them at the moment.
const blockSize, blocks = 64, (highest - lowest + 1) / 64

// block is what is left of the process's latest block.
var block struct {
	sync.Mutex
	next, end int
	guards    []net.Listener // of all blocks; kept, or they would be closed as garbage
}

// FreePorts returns the first of n consecutive ports, fewer than blockSize, on which nothing listens at
// 127.0.0.1. It returns no port twice, nor one that it returned in another process that still runs.
func FreePorts(n int) (first int, err error) {
	block.Lock()
	defer block.Unlock()
	for {
		for block.next+n <= block.end {
			first, block.next = block.next, block.next+n
			if listenOn(first, n) == nil {
				return first, nil
			}
		}
		if err := takeBlock(); err != nil {
			return 0, fmt.Errorf("find %d consecutive free ports: %w", n, err)
		}
	}
}

// takeBlock takes a block that no process has.
func takeBlock() (err error) {
	for _, i := range rand.Perm(blocks) {
		first := lowest + i*blockSize
		guard, failure := net.Listen("tcp", address(first))
		if failure == nil {
			block.next, block.end = first+1, first+blockSize
			block.guards = append(block.guards, guard)
			return nil
		}
		err = failure
	}
	return err
}

// listenOn listens on n ports at the same time, and closes them.
func listenOn(first, n int) (err error) {
	for port := first; port < first+n && err == nil; port++ {
		listener, failure := net.Listen("tcp", address(port))
		if err = failure; err == nil {
			defer func() { err = errors.Join(err, listener.Close()) }()
		}
	}
	return err
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
