package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"time"
)

// goAway puts a database farther away: it returns the URL of a proxy that holds back what passes in either
// direction for half of a round trip. The proxy ends with ctx.
func goAway(ctx context.Context, database string, roundTrip time.Duration) (string, error) {
	there, err := url.Parse(database)
	if err != nil {
		return "", errors.New("the database URL cannot be read")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	to := there.Host
	if there.Port() == "" {
		to = net.JoinHostPort(there.Hostname(), "5432")
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(client, to, roundTrip/2)
		}
	}()
	there.Host = listener.Addr().String()
	return there.String(), nil
}

// forward connects a client with a server until either ends.
func forward(client net.Conn, to string, delay time.Duration) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			holdBack(way[1], way[0], delay)
			ended <- struct{}{}
		}()
	}
	<-ended
}

// held is what was read, and when it may go on.
type held struct {
	data []byte
	at   time.Time
}

// holdBack copies what is read after a delay, in order. What comes meanwhile is delayed by as much.
func holdBack(to io.Writer, from io.Reader, delay time.Duration) {
	const chunks, size = 256, 64 << 10
	passing, done := make(chan held, chunks), make(chan struct{})
	go func() {
		defer close(done)
		for h := range passing {
			time.Sleep(time.Until(h.at))
			if _, err := to.Write(h.data); err != nil {
				return
			}
		}
	}()
	defer close(passing)
	for {
		data := make([]byte, size)
		n, err := from.Read(data)
		if n > 0 {
			select {
			case passing <- held{data[:n], time.Now().Add(delay)}:
			case <-done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}
