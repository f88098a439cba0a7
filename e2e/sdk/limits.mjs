// Time limits of the tests. No test is about them: they are for machines that are slow and
// do much else.

/** A wait that lasts this long, in milliseconds, has failed. */
export const PATIENCE = 150_000;

/**
 * Options of destinations: they keep connections for longer than Posthaste uses idle ones.
 * One that is closed while a request is on its way makes a failed attempt.
 */
export const KEEP = { keepAliveTimeout: 60_000 }; // ms
