#!/usr/bin/env bash
# cron-schedule 6.0.0 (npm): of a field it reads the digits at the beginning and ignores the rest. "0 0 * * 1#2" (the
# second Monday) runs on each Monday, "0 0 * * 5L" (the last Friday) on each Friday, "0 0 15W * *" on the 15th, also a
# Sunday, and "15/20 * * * *" once an hour, not at 15, 35 and 55. Expected was an error, as it gives for "L" alone, or
# what croner 11.0.1 and cron-parser 5.10.6 do. An expression that worked with another library runs four times as often
# as meant.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit cron-schedule@6.0.0 croner@11.0.1 cron-parser@5.10.6 >npm.log
cat >runs.mjs <<'PROGRAM'
import { Cron } from 'croner';
import { CronExpressionParser } from 'cron-parser';
import { parseCronExpression } from 'cron-schedule';

const now = new Date(2026, 10, 1, 0, 1);
const libraries = {
  'cron-schedule': (text) => parseCronExpression(text).getNextDates(3, now),
  croner: (text) => new Cron(text, { timezone: 'UTC' }).nextRuns(3, now),
  'cron-parser': (text) => {
    const runs = CronExpressionParser.parse(text, { currentDate: now, tz: 'UTC' });
    return [1, 2, 3].map(() => runs.next().toDate());
  },
};
for (const text of ['0 0 * * 1#2', '0 0 * * 5L', '0 0 15W * *', '15/20 * * * *', '0 0 L * *']) {
  for (const [name, next] of Object.entries(libraries)) {
    let answer;
    try {
      answer = next(text).map((run) => run.toISOString().slice(5, 16)).join(' ');
    } catch {
      answer = 'error';
    }
    console.log(`${text}|${name}|${answer}`);
  }
}
PROGRAM
answers=$(TZ=UTC node runs.mjs)
echo "cron-schedule 6.0.0, croner 11.0.1, cron-parser 5.10.6"
echo "$answers"
diff <(echo "$answers") - <<'ANSWER'
0 0 * * 1#2|cron-schedule|11-02T00:00 11-09T00:00 11-16T00:00
0 0 * * 1#2|croner|11-09T00:00 12-14T00:00 01-11T00:00
0 0 * * 1#2|cron-parser|11-09T00:00 12-14T00:00 01-11T00:00
0 0 * * 5L|cron-schedule|11-06T00:00 11-13T00:00 11-20T00:00
0 0 * * 5L|croner|11-27T00:00 12-25T00:00 01-29T00:00
0 0 * * 5L|cron-parser|11-27T00:00 12-25T00:00 01-29T00:00
0 0 15W * *|cron-schedule|11-15T00:00 12-15T00:00 01-15T00:00
0 0 15W * *|croner|11-16T00:00 12-15T00:00 01-15T00:00
0 0 15W * *|cron-parser|error
15/20 * * * *|cron-schedule|11-01T00:15 11-01T01:15 11-01T02:15
15/20 * * * *|croner|error
15/20 * * * *|cron-parser|11-01T00:15 11-01T00:35 11-01T00:55
0 0 L * *|cron-schedule|error
0 0 L * *|croner|11-30T00:00 12-31T00:00 01-31T00:00
0 0 L * *|cron-parser|11-30T00:00 12-31T00:00 01-31T00:00
ANSWER
