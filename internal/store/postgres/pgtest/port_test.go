package pgtest

import (
	"net"
	"os"
	"os/exec"
	"strings"
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
	for range 100 {
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

// TestOneProcessEachBlock has another process look for ports in the blocks of this one.
func TestOneProcessEachBlock(t *testing.T) {
	const theirs = "POSTHASTE_TEST_BLOCKS"
	if taken := os.Getenv(theirs); taken != "" {
		for range blocks / 4 {
			if err := takeBlock(); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(taken, block.guards[len(block.guards)-1].Addr().String()) {
				t.Fatalf("the block at %d has two processes", block.next-1)
			}
		}
		return
	}
	if _, err := FreePorts(1); err != nil {
		t.Fatal(err)
	}
	var taken []string
	for _, guard := range block.guards {
		taken = append(taken, guard.Addr().String())
	}
	other := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	other.Env = append(os.Environ(), theirs+"="+strings.Join(taken, " "))
	if output, err := other.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
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
