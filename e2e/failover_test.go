package e2e

import (
	"flag"
	"strings"
	"testing"
	"time"

	"posthaste/internal/store/postgres/pgtest"
)

var failoverLag = flag.Duration("failover-lag", 0, "how far an asynchronous standby is behind in the failover test, which then only counts what is lost; 0: it is synchronous")

// TestFailover ends the primary of two loaded nodes and promotes its synchronous standby. Nothing
// that was acknowledged is lost, nothing is attempted twice, and each node warns of the outage once.
// With an asynchronous standby, what is lost is counted:
//
//	go test -run 'TestFailover$' -v ./e2e -backend postgres -failover-lag 100ms
func TestFailover(t *testing.T) {
	needPostgres(t)
	t.Parallel()
	random := newRandom(t)
	pair := pgtest.RunPair(t, *failoverLag == 0)
	f := newFleetOn(t, pair.URL("postgres"), 2)
	o := newClusterOrdeal(t, f)
	o.load(random)
	if *failoverLag == 0 {
		o.follow() // a log that loses entries confuses followers
	}
	time.Sleep(2 * time.Second)
	o.outage = f.failOver(pair)
	time.Sleep(time.Second)
	o.unload()
	t.Logf("the nodes were ready %v after the primary had ended", o.outage.to.Sub(o.outage.from).Round(time.Millisecond))
	if *failoverLag > 0 {
		o.countLost()
		return
	}
	o.check()
	for _, n := range f.nodes {
		n.checkQuiet()
	}
}

// failOver ends the primary and promotes the standby a while later, when somebody would have noticed.
func (f *fleet) failOver(pair *pgtest.Pair) death {
	f.t.Helper()
	const unnoticed = 2 * time.Second
	if *failoverLag > 0 {
		if err := pair.Lag(); err != nil {
			f.t.Fatal(err)
		}
		time.Sleep(*failoverLag)
	}
	f.outage.Store(true)
	from := time.Now()
	if err := pair.Primary.Halt(); err != nil {
		f.t.Fatal(err)
	}
	time.Sleep(unnoticed)
	if err := pair.Promote(); err != nil {
		f.t.Fatal(err)
	}
	return f.endOutage(from)
}

// checkQuiet fails the test unless the node has logged the outage once, and at most once that it is
// not ready.
func (n *fleetNode) checkQuiet() {
	n.fleet.t.Helper()
	var lines, outages []string
	for line := range strings.Lines(n.server.output.all()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			lines = append(lines, line)
		}
		if strings.Contains(line, "database.lost") {
			outages = append(outages, line)
		}
	}
	const most = 2
	if len(outages) != 1 || len(lines) > most {
		n.fleet.t.Errorf("node %d logged %d outages and %d warnings and errors, want one and %d at most:\n%s",
			n.number, len(outages), len(lines), most, strings.Join(lines[:min(len(lines), 20)], ""))
	}
}

// countLost reports what was acknowledged and is not in the log, and what was attempted twice.
func (o *clusterOrdeal) countLost() {
	o.t.Helper()
	c := o.fleet.nodes[0].client()
	f := newFollower()
	f.waitForEnd(o.t, c, nil)
	lives := byMessage(f.entries)
	lost := 0
	for id := range o.acknowledged {
		if lives[id] == nil {
			lost++
		}
	}
	r := &report{arrivals: o.meter.taken()}
	o.t.Logf("%d messages acknowledged, %d of them lost; %d of %d attempts repeated", len(o.acknowledged), lost, r.countRepeated(), r.countArrivals())
}
