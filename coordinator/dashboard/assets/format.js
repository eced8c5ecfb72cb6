// Figures in words. Decides digits and units; knows nothing of what they are about.

/** Three digits, as many as tell two executors apart: 0.0123, 1.20, 123, 12,300. */
export function figure(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 999.5) return Math.round(value).toLocaleString("en");
  if (size < 0.001) return value.toExponential(1);
  return value.toPrecision(3);
}

/** The same as short as it goes, for the marks of a scale. */
export const brief = (value) => (value >= 1000 ? whole(value) : String(Number(value.toPrecision(3))));

export const whole = (value) => (value ?? 0).toLocaleString("en");
export const percent = (ratio) => `${(ratio * 100).toFixed(ratio < 0.1 ? 1 : 0)} %`;

export function count(number, one, many = `${one}s`) {
  return `${whole(number)} ${number === 1 ? one : many}`;
}

/** A span of time, in its largest unit. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 90) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export const ago = (seconds) => (seconds < 1 ? "just now" : `${span(seconds)} ago`);

const pad = (number) => String(number).padStart(2, "0");

/** The time of day here, to the second; with the day where it is another one. */
export function clock(at, today = new Date()) {
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  if (at.toDateString() === today.toDateString()) return time;
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${time}`;
}

export const minute = (at) => `${pad(at.getHours())}:${pad(at.getMinutes())}`;

/** `handoff_started` as people write it. */
export const words = (name) => name.replaceAll("_", " ");

/** A text as one word of a shell's command line. */
export function quoted(text) {
  return /^[\w.:@%+=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
