package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func startSink(t *testing.T) (*sink, *account) {
	t.Helper()
	s, err := newSink(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	book := newAccount()
	s.use(book)
	return s, book
}

// message returns the body of a message that was sent.
func message(book *account, size int) []byte {
	body := make([]byte, size)
	stamp(body, book.tag, book.send())
	return body
}

func TestSinkEntersWholeBodies(t *testing.T) {
	for _, test := range []struct {
		name string
		body func(*account) io.Reader
		want int
	}{
		{"of known length", func(l *account) io.Reader { return bytes.NewReader(message(l, 512)) }, 1},
		{"in chunks", func(l *account) io.Reader { return io.MultiReader(bytes.NewReader(message(l, 9000))) }, 1},
		{"of the shortest length", func(l *account) io.Reader { return bytes.NewReader(message(l, stampLen)) }, 1},
		{"too short for one of ours", func(l *account) io.Reader { return strings.NewReader("hello") }, 0},
		{"empty", func(l *account) io.Reader { return http.NoBody }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, book := startSink(t)
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			response, err := client.Post(s.url(), "", test.body(book))
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("status = %d, want 200", response.StatusCode)
			}
			if got := book.tally().delivered; got != test.want {
				t.Errorf("delivered = %d, want %d", got, test.want)
			}
		})
	}
}

func TestSinkServesManyRequestsOnAConnection(t *testing.T) {
	s, book := startSink(t)
	transport := &http.Transport{MaxConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for range 3 {
		response, err := client.Post(s.url(), "", bytes.NewReader(message(book, 512)))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	if got := book.tally().delivered; got != 3 {
		t.Errorf("delivered = %d, want 3", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if conns := len(s.conns); conns != 1 {
		t.Errorf("connections = %d, want 1", conns)
	}
}

func TestSinkDoesNotEnterBodiesThatBreakOff(t *testing.T) {
	s, book := startSink(t)
	conn, err := net.Dial("tcp", s.listeners[0].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "POST /sink HTTP/1.1\r\nHost: sink\r\nContent-Length: 512\r\n\r\n"
	if _, err := conn.Write(append([]byte(head), message(book, 511)...)); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
		t.Errorf("answer = %q, %v, want the connection closed without one", rest, err)
	}
	if got := book.tally().delivered; got != 0 {
		t.Errorf("delivered = %d, want 0", got)
	}
}

func TestSinkEntersInTheLedgerInUse(t *testing.T) {
	s, old := startSink(t)
	late := message(old, 512)
	fresh := newAccount()
	s.use(fresh)
	for _, body := range [][]byte{late, message(fresh, 512)} {
		if err := s.take(bytes.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	}
	if got := old.tally().delivered; got != 0 {
		t.Errorf("delivered of the old ledger = %d, want 0", got)
	}
	if got := fresh.tally().delivered; got != 1 {
		t.Errorf("delivered of the new ledger = %d, want 1", got)
	}
}

func TestSinkClosesConnectionsInUse(t *testing.T) {
	s, _ := startSink(t)
	conn, err := net.Dial("tcp", s.listeners[0].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.close()
	if rest, _ := io.ReadAll(conn); len(rest) > 0 {
		t.Errorf("answer = %q, want none", rest)
	}
}
