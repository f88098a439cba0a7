package app

import (
	"container/list"
	"sync"
)

// connections bounds how many connections there are, of all listeners together.
//
// A connection waits from when it is made, or was last answered, until a request on
// it has arrived with all its headers. When there are as many as there may be, the one
// that has waited longest is closed for the one that comes: clients that open
// connections and say nothing, or say it byte by byte, take each other's places and
// nobody else's. Where no connection waits, the next one does so unaccepted.
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
	c.place = all.waiting.PushBack(c)
}

// closeLongest closes the connection that has waited longest, and reports whether
// there was one.
func (all *connections) closeLongest() bool {
	longest := all.waiting.Front()
	if longest == nil {
		return false
	}
	c := longest.Value.(*refusingConn)
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
		c.place = all.waiting.PushBack(c)
		all.changed.Signal()
	}
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
