package pgtest

import (
	"net"
	"testing"
)

// TestFreePorts listens where it is told to, on all ports of a row.
func TestFreePorts(t *testing.T) {
	for _, count := range []int{1, 3} {
		first, err := FreePorts(count)
		if err != nil {
			t.Fatal(err)
		}
		if first < lowest || first+count-1 > highest {
			t.Errorf("%d ports from %d on, want them within %d to %d", count, first, lowest, highest)
		}
		for port := first; port < first+count; port++ {
			listener, err := net.Listen("tcp", address(port))
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
		}
	}
}

// TestNoPortTwice looks for ports that nothing listens on yet.
func TestNoPortTwice(t *testing.T) {
	found := map[int]bool{}
	for range 1000 {
		first, err := FreePorts(3)
		if err != nil {
			t.Fatal(err)
		}
		for port := first; port < first+3; port++ {
			if found[port] {
				t.Fatalf("port %d is found twice", port)
			}
			found[port] = true
		}
	}
}

// TestOneProcessEachBlock takes a block and tries to take it again, as another process would.
func TestOneProcessEachBlock(t *testing.T) {
	block.Lock()
	defer block.Unlock()
	if err := takeBlock(); err != nil {
		t.Fatal(err)
	}
	guard, err := net.Listen("tcp", address(block.next-1))
	if err == nil {
		_ = guard.Close()
		t.Errorf("another process can take the block at %d", block.next-1)
	}
	if block.next-1 < lowest || block.end > highest+1 || block.end-block.next != blockSize-1 {
		t.Errorf("the block has the ports %d to %d, want %d within %d to %d", block.next, block.end-1, blockSize-1, lowest, highest)
	}
}

// TestTakenPort tries a row of which the last port is taken.
func TestTakenPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if taken := listener.Addr().(*net.TCPAddr).Port; listenOn(taken-2, 3) == nil {
		t.Errorf("ports %d to %d are free, but something listens on the last", taken-2, taken)
	}
}
