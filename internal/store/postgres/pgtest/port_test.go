package pgtest

import (
	"fmt"
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
			listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
		}
	}
}

// TestNoPortTwice looks for ports that nobody has begun to listen on yet.
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

// TestTakenPort tries a row of which the last port is taken.
func TestTakenPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if taken := listener.Addr().(*net.TCPAddr).Port; listenOn(taken-2, 3) == nil {
		t.Errorf("ports %d to %d are free, but somebody listens on the last", taken-2, taken)
	}
}
