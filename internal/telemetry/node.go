package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Node is which of the nodes of a database this process is. Make one with NewNode.
type Node struct {
	number atomic.Int64
	ahead  atomic.Int64 // of the clock of the database, in nanoseconds
}

// NewNode returns a node that has not joined, and registers its metrics.
func NewNode(registerer prometheus.Registerer) *Node {
	n := &Node{}
	r := promauto.With(prefixed(registerer))
	r.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "node_clock_ahead_seconds",
		Help: "Clock offset of this node from its database; positive if the node is ahead.",
	}, func() float64 { return time.Duration(n.ahead.Load()).Seconds() })
	r.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "node",
		Help: "Number of this node in its database, as in its log lines. It changes when a node rejoins after it was declared dead.",
	}, func() float64 { return float64(n.number.Load()) })
	return n
}

// Joined notes the number that the node got.
func (n *Node) Joined(number int64) { n.number.Store(number) }

// Clock notes how far the clock of the node is ahead of that of the database.
func (n *Node) Clock(ahead time.Duration) { n.ahead.Store(int64(ahead)) }

// Label returns a logger whose lines say which node they are from, once that is known.
func (n *Node) Label(logger *slog.Logger) *slog.Logger {
	return slog.New(nodeHandler{logger.Handler(), n})
}

// nodeHandler adds the number that the node has at the moment.
type nodeHandler struct {
	slog.Handler
	node *Node
}

// Handle implements slog.Handler.
func (h nodeHandler) Handle(ctx context.Context, line slog.Record) error {
	if number := h.node.number.Load(); number != 0 {
		line = line.Clone()
		line.AddAttrs(slog.Int64("node", number))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (h nodeHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return nodeHandler{h.Handler.WithAttrs(attrs), h.node}
}

// WithGroup implements slog.Handler.
func (h nodeHandler) WithGroup(name string) slog.Handler {
	return nodeHandler{h.Handler.WithGroup(name), h.node}
}
