package dispatch

import (
	"bufio"
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"posthaste"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // package http tells there of destinations that speak out of turn
	goleak.VerifyTestMain(m)
}

// newTestDispatcher returns a Dispatcher that reaches every address, signs with
// a constant and logs nothing, changed as the test wants it.
func newTestDispatcher(t testing.TB, change ...func(*Options)) *Dispatcher {
	options := Options{
		Sign: func(context.Context, string, string, []byte) (string, error) {
			return "the-signature", nil
		},
		RetryAfter: func(http.Header, time.Time) (time.Duration, bool) { return 0, false },
		Policy:     Policy{Mode: ModeAny},
		Log:        slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&options)
	}
	d := New(options)
	t.Cleanup(d.Close)
	return d
}

// newMessage returns a message that carries nothing beyond what every message
// does, for the Upstash family.
func newMessage(url string) *posthaste.Message {
	return &posthaste.Message{
		ID:       posthaste.MessageID{15: 1},
		User:     "user_1",
		URL:      url,
		Body:     []byte("hello"),
		Settings: posthaste.Settings{Dialect: posthaste.DialectUpstash},
	}
}

// sink is a TCP server that keeps the bytes of each request it gets.
type sink struct {
	addr     string
	requests chan string
}

// newSink answers each request with the given bytes. The connection stays open
// unless the answer is empty.
func newSink(t testing.TB, answer string) *sink {
	s := &sink{requests: make(chan string, 16)}
	s.addr = serveTCP(t, func(conn net.Conn) {
		reader := bufio.NewReader(conn)
		for {
			request, err := readRawRequest(reader)
			if err != nil {
				return
			}
			s.requests <- request
			if _, err := io.WriteString(conn, answer); err != nil || answer == "" {
				return
			}
		}
	})
	return s
}

const answerOK = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// serveTCP runs handle for each connection to the returned address, and closes
// the connection when it returns or the test ends.
func serveTCP(t testing.TB, handle func(net.Conn)) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		listener.Close()
		group.Wait()
	})
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			group.Go(func() {
				defer stop()
				defer conn.Close()
				handle(conn)
			})
		}
	})
	return listener.Addr().String()
}

// readRawRequest returns a request as it is on the wire, body included.
func readRawRequest(reader *bufio.Reader) (string, error) {
	var request strings.Builder
	length := 0
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return "", err
		}
		request.WriteString(line)
		if value, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			length, _ = strconv.Atoi(strings.TrimSpace(value))
		}
		if line == "\r\n" {
			break
		}
	}
	_, err := io.CopyN(&request, reader, int64(length))
	return request.String(), err
}

// lines joins the lines of a message head with the line ends of HTTP.
func lines(l ...string) string { return strings.Join(l, "\r\n") }

func requireDelivered(t testing.TB, outcome posthaste.Outcome) {
	t.Helper()
	if outcome.Class != posthaste.OutcomeDelivered {
		t.Fatalf("outcome %s %q, want delivered", outcome.Class, outcome.Error)
	}
}
