-- compatible_from: 31
-- words_of parts words at the same 32 signs as before, by a pattern: translate() compares each character with each sign, which took 1 ms for
-- an answer of 4 KB, seven times the rest.
create or replace function words_of(body text) returns tsvector language plpgsql immutable as $$
declare
    raw bytea := convert_to(left(body, 204801), 'UTF8');
    n   int   := least(octet_length(raw), 204800);
begin
    loop
        while n > 0 and n < octet_length(raw) and get_byte(raw, n) & 192 = 128 loop
            n := n - 1;
        end loop;
        begin
            return to_tsvector('simple', regexp_replace(convert_from(substring(raw from 1 for n), 'UTF8'), '[!-/:-@[-`{-~]', ' ', 'g'));
        exception when program_limit_exceeded then
            n := n / 2;
        end;
    end loop;
end $$;
