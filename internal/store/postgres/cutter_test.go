package postgres_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter lies between a store and its database, and can cut the connection on which the
// next transaction is committed. It reads the protocol only as far as that takes: each
// message is a letter, a length that counts itself, and the rest.
type cutter struct {
	listener net.Listener
	armed    atomic.Int32 // a cut
	command  string       // that is cut: COMMIT, or one that is no prepared statement
	serving  sync.WaitGroup
	hangs    sync.RWMutex // locked: what the store sends does not arrive

	mu       sync.Mutex
	database string // address of the server
	stopped  bool   // no connection is open
	open     []*passage
}

// The moments at which a connection can be cut.
const (
	never        int32 = iota
	beforeCommit       // what asks for the commit does not arrive
	afterCommit        // it took place, and the answer does not arrive
)

// newCutter returns a cutter and the URL of the database behind it.
func newCutter(t *testing.T, database string) (*cutter, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{database: u.Host, listener: listener, command: "COMMIT"}
	c.serving.Go(c.serve)
	t.Cleanup(func() {
		_ = listener.Close()
		c.serving.Wait()
	})
	u.Host = listener.Addr().String()
	return c, u.String()
}

func (c *cutter) serve() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.address())
		if err != nil {
			_ = client.Close()
			continue
		}
		p := &passage{cutter: c, client: client, server: server, statements: map[string]string{}}
		if !c.opens(p) {
			p.close()
			continue
		}
		c.serving.Go(p.forward)
		c.serving.Go(p.back)
	}
}

func (c *cutter) address() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.database
}

// lead cuts all connections, and has new ones lead to the server of another database.
func (c *cutter) lead(t *testing.T, database string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.database = u.Host
	c.mu.Unlock()
	c.stop(true)
	c.stop(false)
}

// opens notes a connection, unless none may be open.
func (c *cutter) opens(p *passage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, p)
	return !c.stopped
}

// stop cuts all connections and lets none be opened, or lets them again.
func (c *cutter) stop(all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped = all; all {
		for _, p := range c.open {
			p.close()
		}
	}
}

// passage is one connection through a cutter.
type passage struct {
	*cutter
	client, server net.Conn
	statements     map[string]string // prepared, by name
	committed      atomic.Bool       // the answer to a commit is not to arrive
}

func (p *passage) close() {
	_ = p.client.Close()
	_ = p.server.Close()
}

// forward passes on what the store sends.
func (p *passage) forward() {
	defer p.close()
	if err := p.startup(); err != nil {
		return
	}
	for {
		message, err := readMessage(p.client)
		if err != nil || p.cuts(message) {
			return
		}
		p.hangs.RLock()
		_, err = p.server.Write(message)
		p.hangs.RUnlock()
		if err != nil {
			return
		}
	}
}

// startup passes on the first message, which has no letter.
func (p *passage) startup() error {
	length := make([]byte, 4)
	if _, err := io.ReadFull(p.client, length); err != nil {
		return err
	}
	rest := make([]byte, binary.BigEndian.Uint32(length)-4)
	if _, err := io.ReadFull(p.client, rest); err != nil {
		return err
	}
	_, err := p.server.Write(append(length, rest...))
	return err
}

// cuts reports whether the connection ends with a message that asks for a commit.
func (p *passage) cuts(message []byte) bool {
	switch fields := bytes.SplitN(message[5:], []byte{0}, 3); message[0] {
	case 'P': // parse: name, text
		p.statements[string(fields[0])] = string(fields[1])
		return false
	case 'B': // bind: portal, name
		if p.statements[string(fields[1])] != p.command {
			return false
		}
	case 'Q': // text
		if !strings.HasPrefix(string(fields[0]), p.command+" ") {
			return false
		}
	default:
		return false
	}
	if p.armed.CompareAndSwap(beforeCommit, never) {
		return true
	}
	if p.armed.CompareAndSwap(afterCommit, never) {
		p.committed.Store(true)
	}
	return false
}

// back passes on what the database answers.
func (p *passage) back() {
	defer p.close()
	for {
		message, err := readMessage(p.server)
		if err != nil {
			return
		}
		if p.committed.Load() {
			if message[0] == 'C' && string(message[5:len(message)-1]) == p.command {
				return
			}
			continue
		}
		if _, err := p.client.Write(message); err != nil {
			return
		}
	}
}

func readMessage(from io.Reader) ([]byte, error) {
	message := make([]byte, 5)
	if _, err := io.ReadFull(from, message); err != nil {
		return nil, err
	}
	message = append(message, make([]byte, binary.BigEndian.Uint32(message[1:])-4)...)
	_, err := io.ReadFull(from, message[5:])
	return message, err
}
