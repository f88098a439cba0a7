// An app that uses the unmodified npm package @upstash/qstash for everything it
// offers, but for what messages.mjs tests. The areas run one after another: some
// of them cancel or delete everything their user has.
import "./areas/publishing.mjs";
import "./areas/batches.mjs";
import "./areas/groups.mjs";
import "./areas/queues.mjs";
import "./areas/schedules.mjs";
import "./areas/flowcontrol.mjs";
import "./areas/cancelling.mjs";
import "./areas/deadletters.mjs";
