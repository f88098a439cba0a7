package dispatch

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"posthaste"
)

// peer is the server's side of one HTTP/2 connection, frame by frame.
type peer struct {
	*http2.Framer
	requests int // on this connection so far
}

// newPeers returns the URL of a TLS server that speaks HTTP/2 through script, which is
// called for each request with its stream. The connection is closed when it reports
// false.
func newPeers(t *testing.T, script func(p *peer, stream uint32) bool) (url string, trusted func(*Options)) {
	t.Helper()
	certified := httptest.NewUnstartedServer(http.NotFoundHandler())
	certified.StartTLS()
	t.Cleanup(certified.Close)
	config := &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{http2.NextProtoTLS}}
	addr := serveTCP(t, func(conn net.Conn) {
		secured := tls.Server(conn, config)
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(secured, preface); err != nil {
			return
		}
		p := &peer{Framer: http2.NewFramer(secured, secured)}
		if p.WriteSettings() == nil {
			p.serve(script)
		}
		_ = secured.CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	})
	return "https://" + addr, trust(certified)
}

// serve runs the script for each request until that or the connection ends.
func (p *peer) serve(script func(p *peer, stream uint32) bool) {
	for {
		frame, err := p.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() && p.WriteSettingsAck() != nil {
				return
			}
		case *http2.PingFrame:
			if !f.IsAck() && p.WritePing(true, f.Data) != nil {
				return
			}
		case *http2.HeadersFrame:
			p.requests++
			if !script(p, f.StreamID) {
				return
			}
		}
	}
}

// head writes the headers of an answer.
func (p *peer) head(stream uint32, end bool, fields ...string) bool {
	return p.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: headerBlock(fields...), EndHeaders: true, EndStream: end,
	}) == nil
}

// headerBlock encodes names and values.
func headerBlock(fields ...string) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // to memory
	}
	return block.Bytes()
}

// TestHostileHTTP2 has destinations that misuse what only HTTP/2 has. Each attempt ends
// by itself, is complete in a sentence, and leaves nothing behind for the next.
func TestHostileHTTP2(t *testing.T) {
	const noAnswer, invalid, incomplete = "HOST closed the connection without a response", "HOST sent no valid HTTP response", "HOST closed the connection before its response was complete"
	tests := []struct {
		name   string
		script func(p *peer, stream uint32) bool
		want   string // the error; "" for an answer that is taken
	}{
		{"answers", func(p *peer, stream uint32) bool { return p.head(stream, true, ":status", "200") }, ""},
		{"resets the stream", func(p *peer, stream uint32) bool {
			return p.WriteRSTStream(stream, http2.ErrCodeInternal) == nil
		}, noAnswer},
		{"resets within the body", func(p *peer, stream uint32) bool {
			return p.head(stream, false, ":status", "200") && p.WriteData(stream, false, []byte("a")) == nil &&
				p.WriteRSTStream(stream, http2.ErrCodeCancel) == nil
		}, incomplete},
		{"closes without a goodbye", func(*peer, uint32) bool { return false }, noAnswer},
		{"closes within the body", func(p *peer, stream uint32) bool {
			p.head(stream, false, ":status", "200")
			return false
		}, incomplete},
		{"says goodbye and drops the request", func(p *peer, stream uint32) bool {
			_ = p.WriteGoAway(stream, http2.ErrCodeEnhanceYourCalm, []byte("go away"))
			return false
		}, noAnswer},
		{"says goodbye and answers", func(p *peer, stream uint32) bool {
			return p.WriteGoAway(stream, http2.ErrCodeNo, nil) == nil && p.head(stream, true, ":status", "200")
		}, ""},
		{"promises what was not asked for", func(p *peer, stream uint32) bool {
			return p.WritePushPromise(http2.PushPromiseParam{StreamID: stream, PromiseID: 2, BlockFragment: headerBlock(":method", "GET"), EndHeaders: true}) == nil
		}, invalid},
		{"endless informational answers", func(p *peer, stream uint32) bool {
			for p.head(stream, false, ":status", "103", "link", strings.Repeat("x", 1000)) {
			}
			return false
		}, invalid},
		{"endless continuations", func(p *peer, stream uint32) bool {
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: headerBlock(":status", "200")})
			for p.WriteContinuation(stream, false, headerBlock("a", strings.Repeat("b", 4000))) == nil {
			}
			return false
		}, invalid},
		{"endless body", func(p *peer, stream uint32) bool {
			p.head(stream, false, ":status", "200")
			for sent := 0; sent < 60<<10; sent += 1 << 10 { // what the flow control lets through
				if p.WriteData(stream, false, make([]byte, 1<<10)) != nil {
					return false
				}
			}
			return true
		}, ""},
		{"more data than it may send", func(p *peer, stream uint32) bool {
			p.head(stream, false, ":status", "200")
			for p.WriteData(stream, false, make([]byte, 16<<10)) == nil {
			}
			return false
		}, ""},
		{"no status", func(p *peer, stream uint32) bool { return p.head(stream, true, "x-a", "b") }, invalid},
		{"data before headers", func(p *peer, stream uint32) bool { return p.WriteData(stream, true, []byte("a")) == nil }, invalid},
		{"a name in capitals", func(p *peer, stream uint32) bool { return p.head(stream, true, ":status", "200", "X-A", "b") }, invalid},
		{"a line break in a value", func(p *peer, stream uint32) bool {
			return p.head(stream, true, ":status", "200", "x-a", "b\r\nforged: yes")
		}, invalid},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			url, trusted := newPeers(t, test.script)
			d := newTestDispatcher(t, trusted, func(o *Options) { o.MaxResponseBody = 32 << 10 })
			m := newMessage(url)
			m.Timeout = time.Minute
			got := d.Attempt(t.Context(), m, 0)
			host := strings.TrimPrefix(url, "https://")
			if want := strings.Replace(test.want, "HOST", host, 1); got.Error != want || got.TimedOut {
				t.Errorf("error %q, timed out %t, want %q", got.Error, got.TimedOut, want)
			}
			requireBounded(t, d, got)
		})
	}
}

// TestGoodbyeIsNoFailure has a server that ends each connection after a few requests, as
// those behind balancers do: what it did not take is sent again over the next one.
func TestGoodbyeIsNoFailure(t *testing.T) {
	url, trusted := newPeers(t, func(p *peer, stream uint32) bool {
		if p.requests == 3 {
			_ = p.WriteGoAway(stream-2, http2.ErrCodeNo, nil) // this one was not taken
			return false
		}
		return p.head(stream, true, ":status", "200")
	})
	d := newTestDispatcher(t, trusted)
	for range 10 {
		requireDelivered(t, d.Attempt(t.Context(), newMessage(url), 0))
	}
}

// TestResetOfOneIsNoneOfOthers has two attempts on one connection, of which the server
// resets one.
func TestResetOfOneIsNoneOfOthers(t *testing.T) {
	var first uint32
	url, trusted := newPeers(t, func(p *peer, stream uint32) bool {
		switch p.requests {
		case 1:
		case 2:
			first = stream
			return true
		case 3:
			_ = p.WriteRSTStream(first, http2.ErrCodeInternal)
		}
		return p.head(stream, true, ":status", "200")
	})
	d := newTestDispatcher(t, trusted)
	requireDelivered(t, d.Attempt(t.Context(), newMessage(url), 0)) // makes the connection
	outcomes := make(chan posthaste.Outcome, 2)
	for range 2 {
		go func() { outcomes <- d.Attempt(t.Context(), newMessage(url), 0) }()
	}
	delivered := 0
	for range 2 {
		if got := <-outcomes; got.Class == posthaste.OutcomeDelivered {
			delivered++
		}
	}
	if delivered != 1 {
		t.Errorf("%d of two were delivered, want the one that was not reset", delivered)
	}
}
