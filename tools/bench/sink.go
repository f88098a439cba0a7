package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// sink is the destination of all messages: an HTTP server that takes everything
// and enters it in the account of the round.
//
// It speaks HTTP/1.1 on its connections itself. The server of net/http costs
// about twice as much processor time, and on a small machine that is taken from
// the programs under test and hides the difference between them.
type sink struct {
	listeners []net.Listener
	account   atomic.Pointer[account]
	serving   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once closed
}

// newSink starts a sink on free ports of the loopback interface. To who delivers, each is a host.
func newSink(hosts int) (*sink, error) {
	s := &sink{conns: map[net.Conn]bool{}}
	for range hosts {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.close()
			return nil, fmt.Errorf("listen for deliveries: %w", err)
		}
		s.listeners = append(s.listeners, listener)
		s.serving.Go(func() { s.serve(listener) })
	}
	return s, nil
}

// url is the destination of most messages.
func (s *sink) url() string { return s.urls()[0] }

// urls are one destination on each host.
func (s *sink) urls() []string {
	urls := make([]string, len(s.listeners))
	for i, listener := range s.listeners {
		urls[i] = "http://" + listener.Addr().String() + "/sink"
	}
	return urls
}

// use makes the sink enter what arrives from now on in the account.
func (s *sink) use(l *account) { s.account.Store(l) }

// close ends all connections and waits until none is served.
func (s *sink) close() {
	for _, listener := range s.listeners {
		listener.Close()
	}
	s.mu.Lock()
	for conn := range s.conns {
		conn.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.serving.Wait()
}

func (s *sink) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && s.admit(conn) {
			s.serving.Go(func() { s.converse(conn) })
		}
	}
}

func (s *sink) admit(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		conn.Close()
		return false
	}
	s.conns[conn] = true
	return true
}

// converse answers the requests of one connection until it ends.
func (s *sink) converse(conn net.Conn) {
	defer s.dismiss(conn)
	reader := bufio.NewReader(conn)
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	for {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if err := s.take(request.Body); err != nil {
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

func (s *sink) dismiss(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	conn.Close()
}

// take reads a body to its end and enters it. Only a whole body counts as
// delivered.
func (s *sink) take(body io.Reader) error {
	var head [stampLen]byte
	n, err := io.ReadFull(body, head[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	if tag, number, ok := readStamp(head[:n]); ok {
		s.account.Load().deliver(tag, number)
	}
	return nil
}
