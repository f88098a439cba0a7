package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var longMemory = flag.Bool("memory", false, "take the memory test to the numbers of docs/reliability.md, which takes ten minutes")

// memoryLimit is what the servers of the memory test should stay below, and memoryMost what
// they must: what is garbage for a moment, and the buffers of the store, come on top.
const memoryLimit, memoryMost = 256 << 20, 2 * memoryLimit

// TestMemory has clients and destinations that make a server hold as much as they can, and
// looks at the most that was resident. It is for a program without the race detector, which
// takes several times as much. The table of docs/reliability.md is made by
//
//	make build
//	POSTHASTE_E2E_BINARY=$PWD/bin/posthaste go test -run 'TestMemory$' -v -timeout 1h ./e2e -memory
func TestMemory(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("the system does not tell what is resident")
	}
	for _, test := range []struct {
		name  string
		short bool // enough in CI, with few messages
		run   func(m *memoryTrial)
	}{
		{"messages of 1 MB in a paused queue", false, (*memoryTrial).pausedQueue},
		{"messages of 10 MB that are due in a day", false, (*memoryTrial).dueInADay},
		{"messages of 1 MB to ten hosts that hang", false, (*memoryTrial).hangingHosts},
		{"clients that do not read pages of dead letters", true, (*memoryTrial).unreadDeadLetters},
		{"clients that do not read a log of large messages", true, (*memoryTrial).unreadLog},
		{"clients that read that log slowly", false, (*memoryTrial).slowlyReadLog},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !test.short && !*longMemory {
				t.Skip("only with -memory")
			}
			m := &memoryTrial{T: t, directory: t.TempDir()}
			m.start()
			defer func() { m.server.stop(t) }()
			test.run(m)
		})
	}
}

// memoryTrial is a server whose memory is looked at.
type memoryTrial struct {
	*testing.T
	directory string
	server    *server
	client    *client
}

func (m *memoryTrial) start() {
	m.Helper()
	m.server = launchServe(m.T, m.directory, "--memory-limit", strconv.Itoa(memoryLimit), "--max-body-size", "16MiB", "--log-level", "error")
	m.client = &client{base: m.server.url(m.T), token: testToken, http: &http.Client{}}
}

// restart begins anew with what is stored: what was taken to store it is forgotten.
func (m *memoryTrial) restart() {
	m.Helper()
	m.server.stop(m.T)
	m.start()
}

var highWater = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// report tells the most that was resident since the start, which must be bounded.
func (m *memoryTrial) report(what string) {
	m.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.server.cmd.Process.Pid))
	if err != nil {
		m.Fatal(err)
	}
	match := highWater.FindSubmatch(status)
	if match == nil {
		m.Fatalf("it is not told what was resident: %s", status)
	}
	kilobytes, err := strconv.Atoi(string(match[1]))
	if err != nil {
		m.Fatal(err)
	}
	m.Logf("%s: %d MiB", what, kilobytes>>10)
	if kilobytes<<10 > memoryMost && !*longMemory {
		m.Errorf("%s: %d MiB were resident, want %d at most", what, kilobytes>>10, memoryMost>>20)
	}
}

// publish publishes messages with bodies of a size.
func (m *memoryTrial) publish(count, size int, path func(n int) string, header map[string]string) {
	m.Helper()
	body := strings.Repeat("memory\n", size/7)
	for n := range count {
		err := untilServed(m.Context(), func() error {
			return m.client.call(m.Context(), http.MethodPost, path(n), header, body, nil)
		})
		if err != nil {
			m.Fatalf("message %d: %v", n, err)
		}
	}
}

func (m *memoryTrial) pausedQueue() {
	m.Helper()
	if err := m.client.putQueue(m.Context(), "q", 1); err != nil {
		m.Fatal(err)
	}
	m.client.post(m.T, "/v2/queues/q/pause", "")
	m.publish(700, 1e6, func(int) string { return "/v2/enqueue/q/http://example.com/" }, nil)
	m.report("700 messages of 1 MB")
}

func (m *memoryTrial) dueInADay() {
	m.Helper()
	m.publishLater(90)
	m.report("90 messages of 10 MB")
}

// publishLater publishes messages of 10 MB that are not due for long.
func (m *memoryTrial) publishLater(count int) {
	m.Helper()
	m.publish(count, 10e6, func(int) string { return "/v2/publish/http://example.com/" }, map[string]string{"Upstash-Delay": "1d"})
}

func (m *memoryTrial) hangingHosts() {
	m.Helper()
	const hosts = 10
	urls := make([]string, hosts)
	for i := range urls {
		urls[i] = m.hangingHost()
	}
	m.publish(500, 1e6, func(n int) string { return "/v2/publish/" + urls[n%hosts] }, map[string]string{"Upstash-Timeout": "10m"})
	healthy := newSink(m.T)
	began := time.Now()
	if _, err := m.client.publish(m.Context(), healthy.url+"/ok/beside", nil, "hi"); err != nil {
		m.Fatal(err)
	}
	(&meter{sink: healthy}).waitForDeliveries(m.T, 1)
	m.Logf("a message to another host was delivered after %v", time.Since(began).Round(time.Millisecond))
	m.report("500 messages of 1 MB")
	m.server.kill(m.T)
	m.start()
	await(m.T, "messages are in flight again", func() bool {
		return metricsOf(m.T, m.client.base)["posthaste_attempts_in_flight"] > 0
	})
	m.hold()
	m.report("after a new start")
}

// hangingHost returns a URL at which nothing is ever answered.
func (m *memoryTrial) hangingHost() string {
	gone := make(chan struct{})
	host := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-gone:
		}
	}))
	m.Cleanup(func() {
		close(gone)
		host.CloseClientConnections()
		host.Close()
	})
	return host.URL
}

func (m *memoryTrial) unreadDeadLetters() {
	m.Helper()
	const letters = 40
	answer := strings.Repeat("a", 1<<20)
	var answered atomic.Int64
	destination := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, answer)
		answered.Add(1)
	}))
	defer destination.Close()
	m.publish(letters, 10, func(int) string { return "/v2/publish/" + destination.URL }, map[string]string{"Upstash-Retries": "0"})
	await(m.T, "all messages have failed", func() bool {
		return answered.Load() >= letters && metricsOf(m.T, m.client.base)["posthaste_attempts_in_flight"] == 0
	})
	m.restart()
	m.unread(40, "/v2/dlq?count=100", "")
	m.report("40 clients")
}

func (m *memoryTrial) unreadLog() {
	m.Helper()
	m.publishLater(m.logged())
	for _, way := range []struct{ name, path, media string }{
		{"pages", "/v2/logs?count=1000", ""},
		{"exports", "/v2/logs", "application/x-ndjson"},
		{"followers", "/v2/logs?fromDate=0", "text/event-stream"},
	} {
		m.restart()
		m.unread(60, way.path, way.media)
		m.report("60 clients, " + way.name)
		if !*longMemory {
			return
		}
	}
}

// logged is how many messages of 10 MB the log has.
func (m *memoryTrial) logged() int {
	if *longMemory {
		return 30
	}
	return 4
}

func (m *memoryTrial) slowlyReadLog() {
	m.Helper()
	m.publishLater(m.logged())
	m.restart()
	const bytesPerSecond, piece = 2_000_000, 100_000
	m.crowd(12, "/v2/logs", "application/x-ndjson", func(conn net.Conn) {
		for pause := time.NewTicker(time.Second * piece / bytesPerSecond); ; <-pause.C {
			if _, err := io.CopyN(io.Discard, conn, piece); err != nil {
				return
			}
		}
	})
	m.report("12 clients at 2 MB/s")
}

// unread has clients ask for something and never read it.
func (m *memoryTrial) unread(clients int, path, media string) {
	m.Helper()
	m.crowd(clients, path, media, nil)
}

// crowd has clients ask for something, read it as read does, and go when they have had it
// held for a while.
func (m *memoryTrial) crowd(clients int, path, media string, read func(net.Conn)) {
	m.Helper()
	ctx, cancel := context.WithCancel(m.Context())
	defer cancel()
	for range clients {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(m.client.base, "http://"))
		if err != nil {
			m.Fatal(err)
		}
		defer conn.Close()
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4 << 10) // what is not read stays where it is
		}
		request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nAccept: %s\r\n\r\n", path, m.client.token, media)
		if _, err := io.WriteString(conn, request); err != nil {
			m.Fatal(err)
		}
		if read != nil {
			go read(conn)
		}
	}
	m.hold()
}

// hold lets the server hold what it does: in the long form until those that wait for room
// have been refused.
func (m *memoryTrial) hold() {
	if *longMemory {
		time.Sleep(40 * time.Second)
	} else {
		time.Sleep(2 * time.Second)
	}
}
