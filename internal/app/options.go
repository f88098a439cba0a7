package app

import (
	"log/slog"
	"net"
	"net/netip"
	"time"

	"posthaste/internal/dispatch"
	"posthaste/internal/engine"
	"posthaste/internal/sign"
)

// Options say what a server is made of. Listeners and one of Data and
// DatabaseURLs are required; the zero value of every other field means the default of
// the part it configures.
type Options struct {
	// Listeners take the connections. They belong to the server from New on, also
	// when New fails.
	Listeners []net.Listener

	// The store is a directory, made if there is none, or a database that many
	// servers share, or several that divide the partitions of users.
	Data         string
	DatabaseURLs []string
	CacheSize    int64         // bytes of the block cache of a directory's store
	DiskReserve  int64         // bytes of the disk of Data below which nothing new is accepted; 0: none
	Connections  int           // of this server to each database, at most
	NodeLease    time.Duration // how long it keeps its attempts while it is not heard from; 0: 10 s
	Partitions   int           // of each user in the database; 0: as it has them, or 1 in a new one, 16 in several

	Tokens []string // texts of the accepted API tokens
	// OwnToken asks for one more, for DefaultUser, that is made at the first start
	// and kept in the store.
	OwnToken bool
	// SigningKeys are the pairs that users begin with; see sign.Keyring.Preset.
	// A user without a pair gets one when it is needed.
	SigningKeys map[string]sign.KeyPair

	Destinations   dispatch.Policy // which addresses are delivered to
	UseProxy       bool            // deliver through the proxy the environment names
	Region         string          // value of the Region header of deliveries
	NotBefore      bool            // signatures carry nbf; see sign.SignerOptions
	TrustedProxies []netip.Prefix  // whose X-Forwarded-For names the caller's address

	Concurrency     int           // attempts in flight
	MaxRetries      int           // that a publisher can ask for
	MaxDelay        time.Duration // that a publisher can ask for
	MaxQueues       int           // of a user; 0: any number
	MaxParallelism  int           // of a queue; 0: any
	MaxSchedules    int           // of a user; 0: any number
	MaxBodySize     int64         // bytes of a message's body
	MaxBatchSize    int64         // bytes of a request with many messages
	MaxResponseSize int           // bytes that are kept of a destination's answer
	MaxTimeout      time.Duration // of one attempt

	MaxRequests    int   // of the API that are worked on at once; 0: 256
	MaxConnections int   // of clients; 0: as many as the memory limit has room for, at most 10 000
	MemoryLimit    int64 // bytes the process should take at most; 0: as GOMEMLIMIT has it

	Keep    Keep            // of users that are not in KeepFor
	KeepFor map[string]Keep // by user

	Alerts Alerts // of what failed for good

	ShutdownLead time.Duration // how long Stop lets the server serve, not ready

	MetricsQueues int // that metrics name

	CORS bool // scripts of any web page may call the API; for development only
	Log  *slog.Logger

	// Attempted is called with each attempt when it has ended, by many goroutines. It must
	// not block. nil is for nobody.
	Attempted func(Attempt)
}

// Attempt is an attempt that has ended.
type Attempt = engine.AttemptReport

// Keep says what is kept of a user; 0 keeps for ever, and any amount.
type Keep struct {
	Logs  time.Duration // the log, and messages that have ended
	DLQ   time.Duration // dead letters
	Runs  time.Duration // workflow runs that have ended
	Bytes int64         // of all together, above which the oldest days go
}

func (k Keep) retention() engine.Retention {
	return engine.Retention{Log: k.Logs, DeadLetters: k.DLQ, Runs: k.Runs, Size: k.Bytes}
}

// retentionFor returns the retention of users with settings of their own.
func (o Options) retentionFor() map[string]engine.Retention {
	own := make(map[string]engine.Retention, len(o.KeepFor))
	for user, keep := range o.KeepFor {
		own[user] = keep.retention()
	}
	return own
}

// DefaultUser owns what is done with the token that a server makes for itself.
const DefaultUser = "default"

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.MaxRequests == 0 {
		o.MaxRequests = defaultMaxRequests
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = connectionsFor(o.MemoryLimit)
	}
	return o
}
