package api

import (
	"context"
	"net/http"

	"posthaste/internal/store"
)

// RoomGate is a gate at which what was asked for may turn out to be less.
type RoomGate interface {
	Gate
	// Shrink gives back all of an amount that was entered with but the rest.
	Shrink(user string, amount, rest int64)
}

// pageRoom is the memory for the pages of one request: from before a page is read, when
// nobody knows how large it is, until the client has taken it, which may take minutes. It
// is for one goroutine.
type pageRoom struct {
	gate RoomGate
	user string
	most int64 // bytes of the largest page
	held int64
}

func (r *request) newPageBudget() *pageRoom {
	return &pageRoom{gate: r.answers, user: r.user, most: r.largestPage}
}

// largestPage returns the bytes of the largest page there is: one message may be more than
// others together.
func largestPage(maxBody int64) int64 { return max(store.PageBytes, maxBody) }

// reserve waits until there is room for any page, in place of the one before.
func (p *pageRoom) reserve(ctx context.Context) error {
	p.give()
	if err := p.gate.Enter(ctx, p.user, p.most); err != nil {
		return err
	}
	p.held = p.most
	return nil
}

// keep gives back what is more than a page needs of so many bytes.
func (p *pageRoom) keep(size int) {
	if rest := int64(size); rest < p.held {
		p.gate.Shrink(p.user, p.held, rest)
		p.held = rest
	}
}

// give gives back all.
func (p *pageRoom) give() {
	if p.held > 0 {
		p.gate.Leave(p.user, p.held)
		p.held = 0
	}
}

// readPage reads a page when there is room for it, and returns that room, which holds the
// bytes that read tells.
func (r *request) readPage(read func() (size int, err error)) (*pageRoom, error) {
	room, size := r.newPageBudget(), 0
	if err := room.reserve(r.Context()); err != nil {
		return nil, err
	}
	defer func() { room.keep(size) }()
	size, err := read()
	return room, err
}

// readOne reads a thing that may be large, and answers with what is shown of it. While
// there is no room the request keeps no place from others.
func (r *request) readOne(read func() (view any, size int, err error)) (_ answer, err error) {
	var one roomy
	one.room, err = r.readPage(func() (size int, err error) {
		if err := r.work(); err != nil {
			return 0, err
		}
		one.view, size, err = read()
		return size, err
	})
	return ok(one), err
}

// roomy is what is shown of one thing, and the room that it takes until it is written.
type roomy struct {
	room *pageRoom
	view any
}

// ServeHTTP implements http.Handler.
func (o roomy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer o.room.give()
	stopReading(w, r)
	writeJSON(w, http.StatusOK, o.view)
}

// inRoom does work in room for a page that it reads and nobody is shown.
func (r *request) inRoom(work func() error) error {
	room := r.newPageBudget()
	if err := room.reserve(r.Context()); err != nil {
		return err
	}
	defer room.give()
	return work()
}
