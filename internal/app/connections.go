package app

import (
	"container/list"
	"sync"
	"time"
)

// connections bounds how many connections there are, of all listeners together.
//
// A connection waits from when it is made, or was last answered, until a request on
// it has arrived with all its headers. When there are as many as there may be, the one
// that has waited longest is closed for the one that comes: clients that open
// connections and say nothing, or say it byte by byte, take each other's places and
// nobody else's. Each has a moment in which its place is safe, however many come. Where
// none can be closed, the next one waits unaccepted.
type connections struct {
	most int

	mu      sync.Mutex
	changed *sync.Cond // one has been closed, or begun to wait
	open    int
	waiting list.List // of *refusingConn, the one that has waited longest first
}

func newConnections(most int) *connections {
	all := &connections{most: most}
	all.changed = sync.NewCond(&all.mu)
	return all
}

// add counts a connection as soon as there is room for it.
func (all *connections) add(c *refusingConn) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for all.open >= all.most && !all.closeLongest() {
		all.changed.Wait()
	}
	all.open++
	c.counted = true
	all.startWaiting(c)
}

// safeTime is how long a connection may wait however many come: time for an honest client
// to ask something.
const safeTime = 100 * time.Millisecond

// closeLongest closes the connection that has waited longest, and reports whether it did.
// If it may not be closed yet, whoever waits is woken when it may.
func (all *connections) closeLongest() bool {
	longest := all.waiting.Front()
	if longest == nil {
		return false
	}
	c := longest.Value.(*refusingConn)
	if safe := safeTime - time.Since(c.waitsSince); safe > 0 {
		time.AfterFunc(safe, all.changed.Broadcast)
		return false
	}
	all.drop(c)
	_ = c.Conn.Close() // its server notices and forgets it
	return true
}

// busy is called when a request on the connection is to be answered.
func (all *connections) busy(c *refusingConn) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.stopWaiting(c)
}

// idle is called when the connection was answered and waits for the next request.
func (all *connections) idle(c *refusingConn) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if c.counted && c.place == nil {
		all.startWaiting(c)
		all.changed.Signal()
	}
}

func (all *connections) startWaiting(c *refusingConn) {
	c.waitsSince = time.Now()
	c.place = all.waiting.PushBack(c)
}

// remove is called when the connection was closed.
func (all *connections) remove(c *refusingConn) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.drop(c)
	all.changed.Signal()
}

// drop stops counting a connection.
func (all *connections) drop(c *refusingConn) {
	all.stopWaiting(c)
	if c.counted {
		c.counted = false
		all.open--
	}
}

func (all *connections) stopWaiting(c *refusingConn) {
	if c.place != nil {
		all.waiting.Remove(c.place)
		c.place = nil
	}
}

// count returns how many connections there are.
func (all *connections) count() int {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.open
}
