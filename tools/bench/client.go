package main

import (
	"bufio"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// address says where and how messages are published.
type address struct {
	host         string        // of the server, with its port
	token        string        // of a user; "" for none
	destinations []string      // of the messages, in turn
	delay        time.Duration // of the messages, in whole seconds; 0: none
	label        string        // of the messages; "" for none
	size         int           // of a body, in bytes; at least stampLen
}

// head returns everything of a request that comes before its body.
func (a address) head(destination string) string {
	var head strings.Builder
	fmt.Fprintf(&head, "POST /v2/publish/%s HTTP/1.1\r\nHost: %s\r\n", destination, a.host)
	fmt.Fprintf(&head, "Authorization: Bearer %s\r\n", a.token)
	fmt.Fprintf(&head, "Content-Type: application/octet-stream\r\nContent-Length: %d\r\n", a.size)
	if a.delay > 0 {
		head.WriteString("Upstash-Delay: " + strconv.Itoa(int(a.delay.Seconds())) + "s\r\n")
	}
	if a.label != "" {
		head.WriteString("Upstash-Label: " + a.label + "\r\n")
	}
	head.WriteString("\r\n")
	return head.String()
}

// client is one kept-alive connection that publishes messages, one at a time. It
// writes HTTP/1.1 itself for the same reason as the sink.
type client struct {
	conn    net.Conn
	reader  *bufio.Reader
	heads   []string // of requests, one for each destination
	next    int      // of heads
	request []byte   // the one that is being published
	body    []byte
	noise   *rand.ChaCha8 // bodies are random, so that no disk makes them smaller
	release func() bool   // undoes the tie between connection and context
	used    time.Time     // when it was last, if it is idle
}

// dial opens a connection that is closed at the latest when ctx ends.
func dial(ctx context.Context, a address) (*client, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", a.host)
	if err != nil {
		return nil, err
	}
	var seed [32]byte
	_, _ = cryptorand.Read(seed[:]) // never fails, by its contract
	heads := make([]string, len(a.destinations))
	for i, destination := range a.destinations {
		heads[i] = a.head(destination)
	}
	return &client{
		conn:    conn,
		reader:  bufio.NewReader(conn),
		heads:   heads,
		next:    rand.IntN(len(heads)), // else all clients publish to the same one at a time
		body:    make([]byte, a.size),
		noise:   rand.NewChaCha8(seed),
		release: context.AfterFunc(ctx, func() { conn.Close() }),
	}, nil
}

func (c *client) close() {
	c.release()
	c.conn.Close()
}

// publish sends one message and enters it in the ledger. Anything but a 2xx is
// an error that quotes the answer.
func (c *client) publish(book *account) error {
	response, number, err := c.send(book)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return refusal(response)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	book.accept(number)
	return nil
}

// send sends one message and returns its number and the answer, whose body is not read
// yet.
func (c *client) send(book *account) (response *http.Response, number uint64, err error) {
	_, _ = c.noise.Read(c.body) // never fails, by its contract
	number = book.send()
	stamp(c.body, book.tag, number)
	c.request = append(append(c.request[:0], c.heads[c.next]...), c.body...)
	c.next = (c.next + 1) % len(c.heads)
	if _, err := c.conn.Write(c.request); err != nil {
		return nil, 0, err
	}
	response, err = http.ReadResponse(c.reader, nil)
	return response, number, err
}

// errBusy is wrapped by the refusal of a server that has no room at the moment.
var errBusy = errors.New("the server is busy")

func refusal(response *http.Response) error {
	const quoted = 300 // bytes
	text, _ := io.ReadAll(io.LimitReader(response.Body, quoted))
	err := fmt.Errorf("the answer was %s: %s", response.Status, text)
	if response.StatusCode == http.StatusServiceUnavailable || response.StatusCode == http.StatusTooManyRequests {
		err = fmt.Errorf("%w: %w", errBusy, err)
	}
	return err
}
