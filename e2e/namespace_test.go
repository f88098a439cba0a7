package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// namespace is a network namespace of its own that is tied to this one by links, each of
// which can be cut.
type namespace struct {
	t    *testing.T
	name string
}

// newNamespace makes a namespace that ends with the test. It takes root, and a kernel
// that lets it: the test is skipped without.
func newNamespace(t *testing.T) *namespace {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a network namespace and cut its link")
	}
	n := &namespace{t: t, name: fmt.Sprintf("ph%d", os.Getpid())}
	if output, err := exec.Command("ip", "netns", "add", n.name).CombinedOutput(); err != nil {
		t.Skipf("no network namespace can be made here: %v: %s", err, output)
	}
	t.Cleanup(func() { n.ip("netns", "delete", n.name) })
	n.ip("-n", n.name, "link", "set", "lo", "up")
	return n
}

func (n *namespace) ip(args ...string) {
	n.t.Helper()
	if output, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Errorf("ip %s: %v: %s", strings.Join(args, " "), err, output)
	}
}

// link is a cable between the namespaces.
type link struct {
	namespace   *namespace
	device      string
	here, there string // addresses of its ends
}

// link lays a cable. The number tells it from others.
func (n *namespace) link(number int) *link {
	n.t.Helper()
	l := &link{
		namespace: n,
		device:    fmt.Sprintf("%s.%d", n.name, number),
		here:      fmt.Sprintf("10.213.%d.1", number),
		there:     fmt.Sprintf("10.213.%d.2", number),
	}
	peer := fmt.Sprintf("eth%d", number)
	n.ip("link", "add", l.device, "type", "veth", "peer", "name", peer, "netns", n.name)
	n.ip("addr", "add", l.here+"/30", "dev", l.device)
	n.ip("-n", n.name, "addr", "add", l.there+"/30", "dev", peer)
	n.ip("-n", n.name, "link", "set", peer, "up")
	l.mend()
	return l
}

// cut drops every packet from now on, and tells neither end.
func (l *link) cut() { l.namespace.ip("link", "set", l.device, "down") }

func (l *link) mend() { l.namespace.ip("link", "set", l.device, "up") }

// forward listens at the near end of the link and passes on what comes to another
// address. It returns the address to connect to.
func (l *link) forward(to string) string {
	t := l.namespace.t
	t.Helper()
	listener, err := net.Listen("tcp", l.here+":0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{to: to}
	t.Cleanup(func() {
		_ = listener.Close()
		f.close()
	})
	f.passing.Go(func() { f.accept(listener) })
	return listener.Addr().String()
}

// forwarder passes connections on.
type forwarder struct {
	to      string
	passing sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func (f *forwarder) accept(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", f.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, near, far)
		f.mu.Unlock()
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			f.passing.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = near.Close(), far.Close()
			})
		}
	}
}

// close ends all connections and waits until nothing is passed on any more.
func (f *forwarder) close() {
	f.mu.Lock()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.passing.Wait()
}

// serve serves a handler at the near end of the link until the test ends, and returns its
// URL.
func (l *link) serve(handler http.Handler) string {
	t := l.namespace.t
	t.Helper()
	listener, err := net.Listen("tcp", l.here+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String()
}
